/*
 * Fail the k-th file call of the kernel, for every k until all succeed, with every kind of failure:
 * opening and reading, loading, scrubbing, exporting, pinning, retention, and both ways between a
 * folder and an object store. Each operation succeeds (the call did not matter, or was repeated) or
 * reports the failed call, and leaves nothing incomplete under a final name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/read/export.h"
#include "checkpoint/read/load.h"
#include "checkpoint/write/retain.h"
#include "lib/calls/file_calls.h"
#include "lib/checkpoint/sample.h"
#include "lib/checkpoint/store_trip.h"

#define OLD 1
#define NEW 2

static char folder[64], old_path[FOLDER_PATH_SIZE], new_path[FOLDER_PATH_SIZE], to[96];
static struct store_trip trip; /* of OLD */
static struct sample sample;
static struct error failure; /* of the last thing that failed */

static int set_up(void **state)
{
    (void)state;
    sample_frozen = 2;
    sample_folder(folder);
    sample_write(folder, OLD, 1);
    checkpoint_path(folder, OLD, old_path);
    checkpoint_path(folder, NEW, new_path);
    snprintf(to, sizeof(to), "%s/elsewhere", folder);
    sample_init(&sample, OLD);
    store_trip_init(&trip, folder, OLD);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_done(&sample);
    sample_remove(folder);
    sample_frozen = 0;
    return 0;
}

static const struct kind {
    enum file_calls_kind kind;
    int code;
} kinds[] = {
    {FILE_CALLS_FAIL, ENOSPC}, {FILE_CALLS_FAIL, EIO},   {FILE_CALLS_FAIL, EINTR},
    {FILE_CALLS_FAIL, EACCES}, {FILE_CALLS_FAIL, EROFS}, {FILE_CALLS_SHORT, 0},
};

/* A failure is reported with its cause and its place: firn's own message for an errno that the
 * reader gives another meaning names the file too. */
static void check_words(const struct kind *kind, int result, long number)
{
    if (result == 0)
        return;
    if (kind->kind == FILE_CALLS_SHORT)
        fail_msg("call %ld, short: %d \"%s\"", number, result, failure.text);
    if (!strstr(failure.text, folder) || failure.code != result ||
        (result == -kind->code && !strstr(failure.text, strerror(kind->code))))
        fail_msg("call %ld, %s: %d \"%s\"", number, strerror(kind->code), result, failure.text);
}

static void fail_each(int (*run)(void), void (*check)(int result))
{
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        bool hit = true;
        long k = 0;
        for (; hit; k++) {
            failure = (struct error){0};
            file_calls_arm(folder, k, kinds[i].kind, kinds[i].code);
            int status = run();
            hit = file_calls_disarm();
            if (status != 0 && !hit)
                fail_msg("nothing failed, but: %s", failure.text);
            check_words(&kinds[i], status, k);
            if (check)
                check(status);
        }
        assert_true(k > 3);
        if (i == 0)
            print_message("[   INFO   ] %ld calls\n", k - 1);
    }
}

static void assert_good(uint64_t step)
{
    struct error error = {0};
    if (sample_check(folder, step, &error) != 0)
        fail_msg("step %d: %s", (int)step, error.text);
}

static int open_and_read(void)
{
    static float values[8192];
    struct checkpoint_reader *reader;
    int status = checkpoint_open(old_path, &reader, &failure);
    if (status != 0)
        return status;
    for (unsigned i = 0; status == 0 && i < sample.count; i++) {
        status = checkpoint_read(reader, sample.tensors[i].name, sample.tensors[i].role, values,
                                 sample.tensors[i].count, &failure);
        if (status == 0)
            assert_memory_equal(values, sample.values[i], sample.tensors[i].count * sizeof(float));
    }
    checkpoint_close(reader);
    return status;
}

static void test_opening_and_reading(void **state)
{
    (void)state;
    fail_each(open_and_read, NULL);
}

static int load_all(int (*open_it)(const char *, struct checkpoint_reader **, struct error *))
{
    static float values[SAMPLE_TENSORS][8192];
    const struct checkpoint_load_options options = {.io = io_threads_table(), .thread_count = 1};
    struct checkpoint_wish wishes[SAMPLE_TENSORS];
    struct checkpoint_reader *reader;
    int status = open_it(old_path, &reader, &failure);
    if (status != 0)
        return status;
    for (unsigned i = 0; i < sample.count; i++)
        wishes[i] = (struct checkpoint_wish){sample.tensors[i].name, sample.tensors[i].role,
                                             values[i], sample.tensors[i].count};
    status = checkpoint_load(reader, &options, wishes, sample.count, NULL, &failure);
    for (unsigned i = 0; status == 0 && i < sample.count; i++)
        assert_memory_equal(values[i], sample.values[i], sample.tensors[i].count * sizeof(float));
    checkpoint_close(reader);
    return status;
}

static int open_and_load(void)
{
    return load_all(checkpoint_open);
}

static int open_to_load(void)
{
    return load_all(checkpoint_open_to_load);
}

static void test_opening_and_loading(void **state)
{
    (void)state;
    fail_each(open_and_load, NULL);
    fail_each(open_to_load, NULL);
}

static int scrub(void)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open(old_path, &reader, &failure);
    if (status == 0) {
        status = checkpoint_verify(reader, NULL, NULL, &failure);
        checkpoint_close(reader);
    }
    return status;
}

static void test_a_scrub(void **state)
{
    (void)state;
    fail_each(scrub, NULL);
}

static int export_plain(void)
{
    const struct checkpoint_export export = {.from = old_path, .to = to, .dtype = SAFETENSORS_BF16};
    return checkpoint_export(&export, &failure);
}

static void check_export(int result)
{
    char path[128];
    struct safetensors_index index;
    struct error error = {0};
    bool there = access(to, F_OK) == 0;
    assert_true(there || result != 0);
    if (there) { /* also when only the parent's sync failed */
        snprintf(path, sizeof(path), "%s/model.safetensors", to);
        assert_int_equal(safetensors_open(path, &index, &error), 0);
        assert_int_equal(index.count, SAMPLE_SHAPES);
        safetensors_index_done(&index);
        snprintf(path, sizeof(path), "%s/config.json", to);
        assert_int_equal(access(path, F_OK), 0);
    }
    sample_remove(to);
}

static void test_an_export(void **state)
{
    (void)state;
    fail_each(export_plain, check_export);
    assert_good(OLD);
}

static int pin(void)
{
    return checkpoint_pin(old_path, &failure);
}

static void check_pin(int result)
{
    struct error error = {0};
    assert_true(checkpoint_pinned(old_path) || result != 0);
    assert_int_equal(checkpoint_unpin(old_path, &error), 0);
    assert_good(OLD);
}

static void test_a_pin(void **state)
{
    (void)state;
    fail_each(pin, check_pin);
}

static int retain(void)
{
    return checkpoint_retain(folder, 1, NEW, 0, &failure);
}

/* Every checkpoint that test_retention has left is whole. */
static void check_retention(int result)
{
    (void)result;
    assert_good(NEW);
    if (access(old_path, F_OK) == 0)
        assert_good(OLD);
    else
        sample_write(folder, OLD, 1);
}

static void test_retention(void **state)
{
    (void)state;
    sample_write(folder, NEW, 1);
    fail_each(retain, check_retention);
}

static int send_it(void)
{
    return store_trip_send(&trip, &failure);
}

static void check_store(int result)
{
    assert_int_equal(fake_store_check(), result == 0);
    fake_store_reset();
}

static void test_sending_to_a_store(void **state)
{
    (void)state;
    fail_each(send_it, check_store);
}

static int fetch_it(void)
{
    return store_trip_fetch(&trip, to, &failure);
}

/* The next attempt resumes from the files of the failed attempt. */
static void check_fetched(int result)
{
    struct error error = {0};
    struct checkpoint_reader *reader;
    if (access(to, F_OK) != 0) {
        assert_true(result != 0);
        if (fetch_it() != 0)
            fail_msg("once more: %s", failure.text);
    }
    if (checkpoint_open(to, &reader, &error) != 0 || sample_compare(reader, OLD, &error) != 0)
        fail_msg("%s", error.text);
    checkpoint_close(reader);
    sample_remove(to);
}

static void test_fetching_from_a_store(void **state)
{
    (void)state;
    assert_int_equal(send_it(), 0);
    fail_each(fetch_it, check_fetched);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_opening_and_reading),
        TEST(test_opening_and_loading),
        TEST(test_a_scrub),
        TEST(test_an_export),
        TEST(test_a_pin),
        TEST(test_retention),
        TEST(test_sending_to_a_store),
        TEST(test_fetching_from_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
