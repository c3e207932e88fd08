/* Block size and depth of writes: chosen with care, remembered, and never in the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/write/io_tuning.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

static char folder[64], remembered[128];

static int set_up(void **state)
{
    (void)state;
    fault.inner = io_threads_table();
    fault_disarm();
    sample_folder(folder);
    snprintf(remembered, sizeof(remembered), "%s/" IO_TUNING_FILE_NAME, folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    return 0;
}

static bool is_usual(const struct io_tuning *tuning)
{
    struct io_tuning usual = io_tuning_usual();
    return tuning->block_bytes == usual.block_bytes && tuning->depth == usual.depth;
}

static void test_noise_does_not_decide(void **state)
{
    struct io_tuning choices[3] = {{.block_bytes = 1, .bytes_per_second = 100},
                                   {.block_bytes = 2, .bytes_per_second = 109},
                                   {.block_bytes = 3, .bytes_per_second = 90}};
    (void)state;
    assert_int_equal(io_tuning_best(choices, 3).block_bytes, 1);
    choices[2].bytes_per_second = 111;
    assert_int_equal(io_tuning_best(choices, 3).block_bytes, 3);
    assert_int_equal(io_tuning_best(choices, 1).block_bytes, 1);
}

static unsigned entries(void)
{
    unsigned count = 0;
    const struct dirent *entry;
    DIR *directory = opendir(folder);
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void test_what_was_measured_is_remembered(void **state)
{
    const char *why;
    (void)state;
    struct io_tuning measured = io_tune(io_probe(&why), folder);
    assert_true(measured.bytes_per_second > 0);
    assert_int_equal(MANIFEST_CHUNK_BYTES % measured.block_bytes, 0);
    assert_true(measured.depth >= 1 && measured.depth <= IO_DEPTH_MAX);
    assert_int_equal(entries(), 1); /* the trial file is removed */
    struct io_tuning again = io_tune(io_probe(&why), folder);
    assert_true(again.bytes_per_second == measured.bytes_per_second);
    assert_int_equal(again.depth, measured.depth);
}

/* Without its disk, a newly made folder would look as if all checkpoints were lost. */
static void test_no_folder_is_made(void **state)
{
    char job[sizeof(folder) + 16];
    const char *why;
    (void)state;
    snprintf(job, sizeof(job), "%s/disk/job", folder);
    assert_true(io_tune(io_probe(&why), job).bytes_per_second > 0);
    assert_int_equal(entries(), 0);
}

static void write_memory(const char *text)
{
    struct error error = {0};
    assert_int_equal(file_replace(remembered, text, strlen(text), 0644, &error), 0);
}

static void test_only_sense_is_remembered(void **state)
{
    static const char *const nonsense[] = {
        "{\"io\":\"faulty\",\"block_bytes\":3000,\"depth\":4,\"bytes_per_second\":7.0}",
        "{\"io\":\"faulty\",\"block_bytes\":4096,\"depth\":0,\"bytes_per_second\":7.0}",
        "{\"io\":\"faulty\",\"block_bytes\":4096,\"depth\":100000,\"bytes_per_second\":7.0}",
        "{\"io\":\"another\",\"block_bytes\":4096,\"depth\":4,\"bytes_per_second\":7.0}",
        "[]",
        ""};
    const struct io *io = fault_table(io_threads_table());
    (void)state;
    write_memory("{\"io\":\"faulty\",\"block_bytes\":4096,\"depth\":3,\"bytes_per_second\":7.0}");
    struct io_tuning tuning = io_tune(io, folder);
    assert_int_equal(tuning.block_bytes, 4096);
    assert_int_equal(tuning.depth, 3);
    for (size_t i = 0; i < ARRAY_COUNT(nonsense); i++) {
        fault_arm(1, -ENOSPC, false, true); /* it would measure, and cannot */
        write_memory(nonsense[i]);
        tuning = io_tune(io, folder);
        assert_true(is_usual(&tuning));
        assert_true(fault.count > 1);
        fault_disarm();
    }
}

static void test_whatever_fails_there_is_the_usual_choice(void **state)
{
    const struct io *io = fault_table(io_threads_table());
    bool hit = true;
    (void)state;
    for (uint64_t k = 0; hit; k += 1 + k / 2) {
        fault_arm(k, -ENOSPC, false, false);
        struct io_tuning tuning = io_tune(io, folder);
        hit = fault.count > k;
        assert_true(tuning.depth >= 1);
        if (access(remembered, F_OK) == 0)
            unlink(remembered);
        else
            assert_true(is_usual(&tuning));
        fault_disarm();
    }
    /* Another process is measuring. */
    char trial[128];
    snprintf(trial, sizeof(trial), "%s/io-tuning.part", folder);
    close(open(trial, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    struct io_tuning tuning = io_tune(io, folder);
    assert_true(is_usual(&tuning));
    assert_true(tuning.bytes_per_second == 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_noise_does_not_decide),
        TEST(test_what_was_measured_is_remembered),
        TEST(test_no_folder_is_made),
        TEST(test_only_sense_is_remembered),
        TEST(test_whatever_fails_there_is_the_usual_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
