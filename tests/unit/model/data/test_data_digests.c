/* What a node keeps of large data: who reads it, and when it is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/model/data_folder.h"

#include "base/compiler.h"
#include "base/log.h"
#include "lib/base/test_folder.h"
#include "model/data/data_digests.h"

#define READERS     6
#define LARGE_BYTES (256 << 20) /* a hole: takes no room, and a while to read */

static const char *path;

/* All data is large here. */
static struct dataset_options remembered(void)
{
    static char folder[256];

    snprintf(folder, sizeof(folder), "%s", test_folder_at("memo"));
    path = test_folder_at("tokens");
    struct dataset_options options = data_folder_options(&path, 1);
    options.memo_folder = folder;
    options.memory_max_bytes = 1;
    return options;
}

/* Files that have just been written are not trusted. */
static void set_modified(const char *name, time_t seconds, long nanoseconds)
{
    const struct timespec times[] = {{.tv_sec = seconds},
                                     {.tv_sec = seconds, .tv_nsec = nanoseconds}};
    assert_int_equal(utimensat(AT_FDCWD, test_folder_at(name), times, 0), 0);
}

static void write_tokens(const char *name, const char *text)
{
    test_folder_write_text(name, text);
    set_modified(name, 1000, 5);
}

/* With the size and the time of modification that it has; only the time of change differs, as soon
 * as the file system's clock has moved. */
static void rewrite_unnoticed(const char *name, const char *text)
{
    struct stat before, after;

    assert_int_equal(stat(test_folder_at(name), &before), 0);
    do {
        write_tokens(name, text);
        assert_int_equal(stat(test_folder_at(name), &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

/* Opens the data, and says whether it was read; its digest must be that without a memory. */
static bool is_read(const struct dataset_options *options)
{
    struct dataset_options plain = *options;
    plain.memo_folder = NULL;
    plain.memory_max_bytes = 0;
    struct dataset *dataset = data_folder_open(options), *copied = data_folder_open(&plain);
    bool known = dataset_was_known(dataset);

    assert_true(hash128_equal(dataset_digest(dataset), dataset_digest(copied)));
    assert_false(dataset_was_known(copied));
    dataset_close(dataset);
    dataset_close(copied);
    return !known;
}

static void test_read_once(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    assert_false(is_read(&options));
    options.seed++; /* nothing that the tokens or the digest depend on */
    options.context = 3;
    assert_false(is_read(&options));
    options.memo_folder = NULL;
    assert_true(is_read(&options));
}

static void test_small_data_is_read(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    options.memory_max_bytes = 12;
    assert_true(is_read(&options));
    assert_true(is_read(&options));
    assert_int_equal(access(options.memo_folder, F_OK), -1);
}

static void test_changes_are_seen(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    rewrite_unnoticed("tokens", "abcdefghijkL");
    assert_true(is_read(&options));
    assert_false(is_read(&options));

    set_modified("tokens", 1000, 6);
    assert_true(is_read(&options));
    write_tokens("tokens", "abcdefghijklm");
    assert_true(is_read(&options));
    assert_false(is_read(&options));

    write_tokens("another", "mlkjihgfedcba"); /* another inode */
    assert_int_equal(rename(test_folder_at("another"), path), 0);
    assert_true(is_read(&options));
    assert_int_equal(rename(path, test_folder_at("renamed")), 0);
    path = test_folder_at("renamed");
    assert_true(is_read(&options));
}

static void test_other_checks_are_other_entries(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    options.vocab = 'm';
    assert_true(is_read(&options));
    options.vocab = 'l';
    data_folder_expect_failure(&options, -ERANGE, "tokens: token 108 at position 11 is outside");
    data_folder_expect_failure(&options, -ERANGE, "tokens: token 108 at position 11 is outside");
    options.vocab = 65536;
    options.format = DATASET_UINT16;
    assert_true(is_read(&options));
}

/* Which file is training data and which a mask counts as well. */
static void test_all_files_count(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    write_tokens("validation", "mlkjihgfedcba");
    const uint8_t ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    test_folder_write("mask", ones, sizeof(ones));
    set_modified("mask", 1000, 0);
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    options.validation_path = test_folder_at("validation");
    assert_true(is_read(&options));
    assert_false(is_read(&options));
    const char *mask = test_folder_at("mask");
    options.mask_paths = &mask;
    options.mask_path_count = 1;
    assert_true(is_read(&options));
    assert_false(is_read(&options));
    set_modified("mask", 1000, 1);
    assert_true(is_read(&options));
    set_modified("validation", 1000, 1);
    assert_true(is_read(&options));
}

/* Between a modification and the reading, the file system's clock may not have moved. */
static void test_young_files_are_not_trusted(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    set_modified("tokens", (time_t)1 << 33, 0); /* younger than now, on every machine */
    assert_true(is_read(&options));
    assert_true(is_read(&options));
}

static void find_entry(const struct dataset_options *options, char ret_path[512])
{
    struct data_digests memo;
    struct error error;
    char name[HASH128_TEXT_SIZE];

    assert_int_equal(data_digests_begin(options, &memo, &error), 0);
    hash128_text(memo.key, name);
    snprintf(ret_path, 512, "%s/%s", options->memo_folder, name);
    data_digests_done(&memo);
}

static void test_damaged_entries_are_made_anew(void **state)
{
    char entry[512], text[512];

    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    find_entry(&options, entry);
    FILE *file = fopen(entry, "r");
    assert_non_null(file);
    size_t size_bytes = fread(text, 1, sizeof(text), file);
    fclose(file);
    assert_in_range(size_bytes, 100, 300);

    for (size_t i = 0; i < size_bytes; i++) {
        file = fopen(entry, "w");
        text[i] ^= 1;
        assert_int_equal(fwrite(text, 1, size_bytes, file), size_bytes);
        text[i] ^= 1;
        fclose(file);
        assert_true(is_read(&options));
        assert_false(is_read(&options));
    }
    for (size_t i = 0; i < size_bytes; i += 7) {
        assert_int_equal(truncate(entry, (off_t)i), 0);
        assert_true(is_read(&options));
    }
    assert_false(is_read(&options));
}

/* It costs time, and nothing else. */
static void test_a_folder_that_cannot_be_written(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    test_folder_write_text("memo", "a file");
    assert_true(is_read(&options));
    assert_true(is_read(&options));
}

static void test_a_change_while_it_is_read(void **state)
{
    struct data_digests memo;
    struct error error = {0};

    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_int_equal(data_digests_begin(&options, &memo, &error), 0);
    assert_false(memo.known);
    set_modified("tokens", 1001, 0);
    assert_int_equal(data_digests_end(&memo, &options, (struct hash128){1, 2}, &error), -EIO);
    assert_non_null(strstr(error.text, "changed while it was read"));
    data_digests_done(&memo);
    assert_true(is_read(&options));
}

/* In a process of its own; exits with 1 if it has read. */
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
    set_modified("tokens", 1000, 0);
    struct dataset_options options = remembered();
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
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0)
        _exit(data_digests_begin(&options, &memo, &error) < 0 || memo.lock < 0);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    assert_true(is_read(&options));
    assert_false(is_read(&options));
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
    set_modified("tokens", 1000, 0);
    set_modified("validation", 1000, 0);
    struct dataset_options options = remembered();
    options.validation_path = test_folder_at("validation");
    options.listener = (struct dataset_listener){hear, &heard};
    assert_true(is_read(&options));
    assert_int_equal(heard.words, 14);
    assert_int_equal(heard.done_bytes, 14 << 20);
    assert_int_equal(heard.total_bytes, 14 << 20);
    heard = (struct heard){0};
    assert_false(is_read(&options));
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
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
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

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_read_once),
        IN_FOLDER(test_small_data_is_read),
        IN_FOLDER(test_changes_are_seen),
        IN_FOLDER(test_other_checks_are_other_entries),
        IN_FOLDER(test_all_files_count),
        IN_FOLDER(test_young_files_are_not_trusted),
        IN_FOLDER(test_damaged_entries_are_made_anew),
        IN_FOLDER(test_a_folder_that_cannot_be_written),
        IN_FOLDER(test_a_change_while_it_is_read),
        IN_FOLDER(test_workers_that_start_together_read_once),
        IN_FOLDER(test_a_reader_that_dies),
        IN_FOLDER(test_reading_is_told_of),
        IN_FOLDER(test_waiting_is_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
