/* Reading a checkpoint back: every byte of every file counts, and a checkpoint removed meanwhile
 * is no damage. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/scrub.h"
#include "lib/checkpoint/sample.h"

#define STEP 3

static char folder[64], path[1024], sha256[65];
static atomic_bool stop;
static _Atomic uint64_t done_bytes, total_bytes;
static struct scrub_finding finding;
static struct error error;

static int set_up(void **state)
{
    (void)state;
    sample_frozen = 2;
    sample_folder(folder);
    sample_write(folder, STEP, 2);
    sample_frozen = 0;
    checkpoint_path(folder, STEP, path);
    sample_manifest_sha256(path, sha256);
    atomic_store(&stop, false);
    error_clear(&error);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    return 0;
}

static int scrub(double seconds)
{
    const struct scrub_options options = {.path = path,
                                          .sha256 = sha256,
                                          .seconds = seconds,
                                          .stop = &stop,
                                          .done_bytes = &done_bytes,
                                          .total_bytes = &total_bytes};
    return checkpoint_scrub(&options, &finding, &error);
}

static void flip(const char *name, off_t offset)
{
    char file[1300];
    uint8_t byte;
    snprintf(file, sizeof(file), "%s/%s", path, name);
    int descriptor = open(file, O_RDWR);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, offset), 1);
    byte ^= 4;
    assert_int_equal(pwrite(descriptor, &byte, 1, offset), 1);
    assert_int_equal(fsync(descriptor), 0);
    close(descriptor);
}

static void test_what_was_written_is_good(void **state)
{
    (void)state;
    assert_int_equal(scrub(0), 0);
    assert_true(atomic_load(&total_bytes) > 0);
    assert_int_equal(atomic_load(&done_bytes), atomic_load(&total_bytes));
}

/* One bit at the begin, in the middle and at the end of each file. */
static void test_every_file_counts(void **state)
{
    (void)state;
    DIR *directory = opendir(path);
    const struct dirent *entry;
    unsigned files = 0;
    assert_non_null(directory);
    while ((entry = readdir(directory))) {
        struct stat status;
        char file[1300];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        assert_int_equal(stat(file, &status), 0);
        const off_t places[] = {0, status.st_size / 2, status.st_size - 1};
        for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
            flip(entry->d_name, places[i]);
            assert_int_equal(scrub(0), -EBADMSG);
            assert_string_equal(finding.file, entry->d_name);
            assert_non_null(strstr(error.text, entry->d_name));
            flip(entry->d_name, places[i]);
        }
        files++;
    }
    closedir(directory);
    assert_true(files > 5);
    assert_int_equal(scrub(0), 0);
}

/* Lines of metrics are read last: a job does without them, and not without the others. */
static void test_metrics_count_for_less(void **state)
{
    (void)state;
    sample_make_metrics(path);
    sample_manifest_sha256(path, sha256);
    assert_int_equal(scrub(0), 0);
    flip(SAMPLE_METRICS, 0);
    assert_int_equal(scrub(0), -EBADMSG);
    assert_string_equal(finding.file, SAMPLE_METRICS);
    assert_true(finding.is_metrics);
    flip("model.safetensors.index.json", 0);
    assert_int_equal(scrub(0), -EBADMSG);
    assert_string_equal(finding.file, "model.safetensors.index.json");
    assert_false(finding.is_metrics);
}

static void test_a_missing_file_is_damage(void **state)
{
    (void)state;
    char file[1300];
    snprintf(file, sizeof(file), "%s/config.json", path);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(scrub(0), -EBADMSG);
    assert_string_equal(finding.file, "config.json");
}

static void test_one_that_is_gone_is_none(void **state)
{
    (void)state;
    sample_remove(path);
    assert_int_equal(scrub(0), -ENOENT);
}

/* A job that went back has rewritten the step, and the record is on its way. */
static void test_another_one_of_the_step_is_none(void **state)
{
    (void)state;
    sha256[0] = sha256[0] == 'a' ? 'b' : 'a';
    assert_int_equal(scrub(0), -ENOENT);
}

static void test_it_stops_when_it_is_told_to(void **state)
{
    (void)state;
    atomic_store(&stop, true);
    assert_int_equal(scrub(3600), -ECANCELED);
}

static void test_reads_are_spread_over_the_time(void **state)
{
    (void)state;
    uint64_t began_ns = clock_monotonic_ns();
    assert_int_equal(scrub(0.2), 0);
    assert_true(clock_monotonic_ns() - began_ns >= NS_PER_SECOND / 5);
}

static void test_damage_takes_the_place_of_the_other_mark(void **state)
{
    (void)state;
    assert_int_equal(checkpoint_verified_ns(path), 0);
    assert_int_equal(checkpoint_mark_verified(path, &error), 0);
    assert_true(checkpoint_verified_ns(path) > 0);
    assert_int_equal(checkpoint_mark_damaged(path, &error), 0);
    assert_true(checkpoint_damaged(path) && !checkpoint_verified(path));
    assert_int_equal(checkpoint_mark_verified(path, &error), 0); /* a good copy was put there */
    assert_true(!checkpoint_damaged(path) && checkpoint_verified(path));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_written_is_good),
        TEST(test_every_file_counts),
        TEST(test_metrics_count_for_less),
        TEST(test_a_missing_file_is_damage),
        TEST(test_one_that_is_gone_is_none),
        TEST(test_another_one_of_the_step_is_none),
        TEST(test_it_stops_when_it_is_told_to),
        TEST(test_reads_are_spread_over_the_time),
        TEST(test_damage_takes_the_place_of_the_other_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
