/* Tests of workers of a node that start together: one worker reads large data, and the others learn
 * the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/model/known_data.h"

#include "base/log.h"
#include "lib/base/test_folder.h"
#include "model/data/data_digests.h"

#define READERS     6
#define LARGE_BYTES (256 << 20) /* a hole: takes no room, and a while to read */
#define OWN_ERROR   99

/* Run in a separate process; exit with 1 if it has read. */
static void open_at_once(const struct dataset_options *options, int starts)
{
    struct dataset *dataset;
    struct error error;
    char byte;

    if (read(starts, &byte, 1) != 0 || dataset_open(options, &dataset, &error) < 0)
        _exit(2);
    _exit(!dataset_was_known(dataset));
}

static void test_workers_that_start_together_read_once(void **state)
{
    int starts[2], statuses[2] = {0};
    pid_t readers[READERS];

    (void)state;
    test_folder_write_text("tokens", "");
    assert_int_equal(truncate(test_folder_at("tokens"), LARGE_BYTES), 0);
    known_data_set_modified("tokens", 1000, 0);
    struct dataset_options options = known_data_options();
    assert_int_equal(pipe(starts), 0);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = fork();
        assert_true(readers[i] >= 0);
        if (readers[i] == 0) {
            close(starts[1]);
            open_at_once(&options, starts[0]);
        }
    }
    close(starts[1]);
    close(starts[0]);
    for (size_t i = 0; i < READERS; i++) {
        int status;
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        statuses[WEXITSTATUS(status)]++;
    }
    assert_int_equal(statuses[1], 1);
    assert_int_equal(statuses[0], READERS - 1);
}

/* The next one reads in its place. */
static void test_a_reader_that_dies(void **state)
{
    struct data_digests memo;
    struct error error;

    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0)
        _exit(data_digests_begin(&options, &memo, &error) < 0 || memo.lock < 0);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));
}

struct heard {
    unsigned words;
    uint64_t done_bytes, total_bytes;
};

static void hear(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct heard *heard = context;

    assert_true(done_bytes > heard->done_bytes && done_bytes <= total_bytes);
    *heard = (struct heard){heard->words + 1, done_bytes, total_bytes};
}

static void test_reading_is_told_of(void **state)
{
    struct heard heard = {0};

    (void)state;
    test_folder_write_text("tokens", "");
    test_folder_write_text("validation", "");
    assert_int_equal(truncate(test_folder_at("tokens"), 9 << 20), 0);
    assert_int_equal(truncate(test_folder_at("validation"), 5 << 20), 0);
    known_data_set_modified("tokens", 1000, 0);
    known_data_set_modified("validation", 1000, 0);
    struct dataset_options options = known_data_options();
    options.validation_path = test_folder_at("validation");
    options.listener = (struct dataset_listener){hear, &heard};
    assert_true(known_data_is_read(&options));
    assert_int_equal(heard.words, 14);
    assert_int_equal(heard.done_bytes, 14 << 20);
    assert_int_equal(heard.total_bytes, 14 << 20);
    heard = (struct heard){0};
    assert_false(known_data_is_read(&options));
    assert_int_equal(heard.words, 0);
}

static void pass_on(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    const int *pipe_end = context;

    if (done_bytes == 0 && total_bytes == 0 && write(*pipe_end, "w", 1) != 1)
        _exit(3);
}

static void test_waiting_is_told_of(void **state)
{
    struct data_digests memo;
    struct error error;
    int words[2], status;
    char byte;

    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_int_equal(pipe(words), 0);
    assert_int_equal(data_digests_begin(&options, &memo, &error), 0);
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) {
        data_digests_done(
            &memo); /* its copy of the descriptor keeps the lock no longer than ours */
        options.listener = (struct dataset_listener){pass_on, &words[1]};
        struct dataset *dataset;
        _exit(dataset_open(&options, &dataset, &error) < 0 || !dataset_was_known(dataset));
    }
    close(words[1]);
    assert_int_equal(read(words[0], &byte, 1), 1);
    close(words[0]);
    CLEANUP(data_digests_done) struct data_digests ours = memo;
    struct dataset_options plain = options;
    plain.memo_folder = NULL;
    struct dataset *dataset = data_folder_open(&plain);
    assert_int_equal(data_digests_end(&ours, &options, dataset_digest(dataset), &error), 0);
    dataset_close(dataset);
    data_digests_done(&ours);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
}

/* Let another process wait for the data while @write leaves a failure; return its exit status: 0:
 * it has opened the data; OWN_ERROR: another failure; otherwise the code of this failure. */
static int wait_for_failure(struct dataset_options *options,
                            void (*write_failure)(const struct data_digests *memo,
                                                  const struct dataset_options *options))
{
    struct data_digests memo;
    struct error error;
    int words[2], status;
    char byte;

    assert_int_equal(pipe(words), 0);
    assert_int_equal(data_digests_begin(options, &memo, &error), 0);
    pid_t waiting = fork();
    assert_true(waiting >= 0);
    if (waiting == 0) {
        data_digests_done(&memo);
        options->listener = (struct dataset_listener){pass_on, &words[1]};
        struct dataset *dataset;
        int code = dataset_open(options, &dataset, &error);
        _exit(code == 0 || strstr(error.text, "bad token at 7") ? -code : OWN_ERROR);
    }
    close(words[1]);
    assert_int_equal(read(words[0], &byte, 1), 1);
    close(words[0]);
    write_failure(&memo, options);
    data_digests_done(&memo);
    assert_int_equal(waitpid(waiting, &status, 0), waiting);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void fail_with_range(const struct data_digests *memo, const struct dataset_options *options)
{
    struct error error = {0};

    assert_int_equal(error_set(&error, -ERANGE, "bad token at %d", 7), -ERANGE);
    data_digests_fail(memo, options, &error);
}

static void fail_with_io(const struct data_digests *memo, const struct dataset_options *options)
{
    struct error error = {0};

    assert_int_equal(error_set(&error, -EIO, "bad token at %d", 7), -EIO);
    data_digests_fail(memo, options, &error);
}

static void fail_after_a_change(const struct data_digests *memo,
                                const struct dataset_options *options)
{
    known_data_set_modified("tokens", 2000, 0);
    fail_with_range(memo, options);
}

static void fail_with_damage(const struct data_digests *memo, const struct dataset_options *options)
{
    fail_with_range(memo, options);
    assert_int_equal(pwrite(memo->lock, "8", 1, 70), 1);
}

/* The data is good here: a process that fails has taken the failure over. */
static void test_bad_data_is_found_once(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_int_equal(wait_for_failure(&options, fail_with_range), ERANGE);
    assert_true(known_data_is_read(&options)); /* a later start believes its own eyes */
    known_data_write("tokens", "abcdefghijkL");
    assert_int_equal(wait_for_failure(&options, fail_with_io), 0);
    known_data_write("tokens", "abcdefghijKL");
    assert_int_equal(wait_for_failure(&options, fail_after_a_change), OWN_ERROR);
    known_data_write("tokens", "abcdefghiJKL");
    assert_int_equal(wait_for_failure(&options, fail_with_damage), 0);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_workers_that_start_together_read_once),
        IN_FOLDER(test_a_reader_that_dies),
        IN_FOLDER(test_reading_is_told_of),
        IN_FOLDER(test_waiting_is_told_of),
        IN_FOLDER(test_bad_data_is_found_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
