/* What a node keeps of large data: who reads it, and when it is read again. */
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
#include <sys/wait.h>
#include <unistd.h>

#include "lib/model/data_folder.h"

#include "base/compiler.h"
#include "base/log.h"
#include "lib/base/test_folder.h"
#include "model/data/data_digests.h"
#include "model/data/digest_folder.h"
#include "model/data/mask_counts.h"

#define READERS     6
#define LARGE_BYTES (256 << 20) /* a hole: takes no room, and a while to read */

static const char *path;

/* The wall clock of a test: some time after the real one, or moving with each look. */
struct test_time {
    int64_t ahead_ns;
    uint64_t fixed_ns, step_ns; /* used if not 0 */
    unsigned looks;
};

static uint64_t test_realtime(void *context)
{
    struct test_time *time = context;

    time->looks++;
    if (time->fixed_ns)
        return time->fixed_ns += time->step_ns;
    return clock_real()->realtime_ns(clock_real()->context) + (uint64_t)time->ahead_ns;
}

/* Files that have just been written are old enough for this clock. */
static struct test_time later = {.ahead_ns = 10 * (int64_t)NS_PER_SECOND};
static const struct clock later_clock = {.realtime_ns = test_realtime, .context = &later};

/* All data is large here. */
static struct dataset_options remembered(void)
{
    static char folder[256];

    snprintf(folder, sizeof(folder), "%s", test_folder_at("memo"));
    path = test_folder_at("tokens");
    struct dataset_options options = data_folder_options(&path, 1);
    options.memo_folder = folder;
    options.memory_max_bytes = 1;
    options.clock = &later_clock;
    return options;
}

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

/* ---- the tick of the file system's clock ---- */

static uint64_t last_change_ns(const char *name)
{
    struct stat status;

    assert_int_equal(stat(test_folder_at(name), &status), 0);
    return (uint64_t)status.st_ctim.tv_sec * NS_PER_SECOND + (uint64_t)status.st_ctim.tv_nsec;
}

/* A write in the same tick would move no time, even the time of change of a file whose time of
 * modification is old: the reader waits. */
static void test_reader_waits_until_files_are_settled(void **state)
{
    struct test_time slow = {.step_ns = NS_PER_SECOND / 5};
    const struct clock clock = {.realtime_ns = test_realtime, .context = &slow};

    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    options.clock = &clock;
    slow.fixed_ns = last_change_ns("tokens");
    assert_true(is_read(&options));
    assert_true(slow.fixed_ns >= last_change_ns("tokens") + 2 * NS_PER_SECOND);
    assert_in_range(slow.looks, 10, 15);
    slow.looks = 0;
    assert_false(is_read(&options));
    assert_int_equal(slow.looks, 0); /* nothing to wait for */
}

/* A clock that was set back, or the times of another machine. */
static void test_changes_of_the_future_are_not_trusted(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    set_modified("tokens", (time_t)1 << 33, 0);
    assert_true(is_read(&options));
    assert_true(is_read(&options));

    struct test_time early = {.ahead_ns = -100 * (int64_t)NS_PER_SECOND};
    const struct clock clock = {.realtime_ns = test_realtime, .context = &early};
    set_modified("tokens", 1000, 0);
    options.clock = &clock;
    assert_true(is_read(&options));
    assert_true(is_read(&options));
    options.clock = &later_clock;
    assert_true(is_read(&options));
    assert_false(is_read(&options));
}

/* ---- entries ---- */

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

static void read_entry(const char *entry, char ret_text[512])
{
    FILE *file = fopen(entry, "r");

    assert_non_null(file);
    size_t size_bytes = fread(ret_text, 1, 511, file);
    ret_text[size_bytes] = '\0';
    fclose(file);
}

/* An entry whose checksum is right. */
static void write_entry(const char *entry, const char *text)
{
    char check[HASH128_TEXT_SIZE];
    const char *end = strstr(text, "check ");
    FILE *file = fopen(entry, "w");

    assert_true(file && end);
    hash128_text(hash_xxh3(text, (size_t)(end - text)), check);
    fprintf(file, "%.*scheck %s\n", (int)(end - text), text, check);
    assert_int_equal(fclose(file), 0);
}

/* A later firn that checks more writes another version; a copied entry has another name. */
static void test_entries_of_others_are_not_trusted(void **state)
{
    char entry[512], other[512], text[512], changed[512];

    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    find_entry(&options, entry);
    read_entry(entry, text);
    write_entry(entry, text);
    assert_false(is_read(&options)); /* as it was */
    strcpy(changed, text);
    *strstr(changed, " 1\n") = '\t';
    write_entry(entry, changed);
    assert_true(is_read(&options));
    strcpy(changed, text);
    strstr(changed, " 1\n")[1] = '2';
    write_entry(entry, changed);
    assert_true(is_read(&options));
    assert_false(is_read(&options));

    write_tokens("tokens", "abcdefghijkL");
    find_entry(&options, other);
    assert_string_not_equal(entry, other);
    write_entry(other, text);
    assert_true(is_read(&options));
}

static unsigned count_files(const char *folder)
{
    unsigned count = 0;
    DIR *opened = opendir(folder);

    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened));)
        count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

static void make_entry(const char *folder, uint64_t key, off_t size_bytes)
{
    const struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char entry[512], name[HASH128_TEXT_SIZE];

    hash128_text((struct hash128){key, key}, name);
    snprintf(entry, sizeof(entry), "%s/%s", folder, name);
    int descriptor = open(entry, O_RDWR | O_CREAT, 0644);
    assert_true(descriptor >= 0 && ftruncate(descriptor, size_bytes) == 0);
    assert_int_equal(futimens(descriptor, times), 0);
    close(descriptor);
}

/* tests/unit/model/data/test_digest_folder.c has the rest. */
static void test_folder_is_bounded(void **state)
{
    (void)state;
    write_tokens("tokens", "abcdefghijkl");
    struct dataset_options options = remembered();
    assert_true(is_read(&options));
    for (unsigned i = 1; i <= DIGEST_FOLDER_MAX; i++)
        make_entry(options.memo_folder, i, 0);
    options.vocab = 255;
    assert_true(is_read(&options));
    assert_int_equal(count_files(options.memo_folder), DIGEST_FOLDER_MAX);
    assert_false(is_read(&options));
    options.vocab = 256;
    assert_false(is_read(&options));
}

/* ---- counts of a mask ---- */

/* Opens the data twice; the counted targets of all samples, by a node that knows the data. */
static uint64_t known_count(const struct dataset_options *options)
{
    dataset_close(data_folder_open(options));
    struct dataset *dataset = data_folder_open(options);
    assert_true(dataset_was_known(dataset));
    uint64_t counted = dataset_train_counted(dataset, 0, dataset_train_count(dataset));
    dataset_close(dataset);
    return counted;
}

static struct mask_counts counts_of(const struct dataset_options *options, uint64_t sample_count)
{
    static char counts_path[600];
    struct data_digests memo;
    struct error error;

    assert_int_equal(data_digests_begin(options, &memo, &error), 0);
    char *found = data_digests_path(&memo, ".data.mask.4");
    assert_non_null(found);
    snprintf(counts_path, sizeof(counts_path), "%s", found);
    free(found);
    data_digests_done(&memo);
    return (struct mask_counts){
        .path = counts_path, .key = memo.key, .context = 4, .sample_count = sample_count};
}

static struct dataset_options masked(void)
{
    static const uint8_t mask[] = {1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0};
    static const char *mask_path;

    write_tokens("tokens", "abcdefghijklm");
    test_folder_write("mask", mask, sizeof(mask));
    set_modified("mask", 1000, 0);
    mask_path = test_folder_at("mask");
    struct dataset_options options = remembered();
    options.mask_paths = &mask_path;
    options.mask_path_count = 1;
    return options;
}

static void test_counts_of_a_mask_are_kept(void **state)
{
    uint32_t counts[3];
    struct error error;

    (void)state;
    struct dataset_options options = masked();
    assert_int_equal(known_count(&options), 3 + 2 + 2);
    struct mask_counts kept = counts_of(&options, 3);
    assert_true(mask_counts_load(&kept, counts));
    assert_true(counts[0] == 3 && counts[1] == 2 && counts[2] == 2);

    counts[1] = 4; /* a known mask is not added up again */
    assert_int_equal(mask_counts_keep(&kept, counts, &error), 0);
    assert_int_equal(known_count(&options), 3 + 4 + 2);
    options.context = 6;
    assert_int_equal(known_count(&options), 5 + 2);
    options.context = 4;
    rewrite_unnoticed("tokens", "abcdefghijkLm"); /* other data: nothing is known of it */
    assert_int_equal(known_count(&options), 3 + 2 + 2);
}

static void test_damaged_counts_are_made_anew(void **state)
{
    uint32_t counts[4];
    struct stat status;
    struct error error;

    (void)state;
    struct dataset_options options = masked();
    assert_int_equal(known_count(&options), 7);
    struct mask_counts kept = counts_of(&options, 3);
    assert_int_equal(stat(kept.path, &status), 0);
    for (off_t i = 0; i < status.st_size; i++) {
        int descriptor = open(kept.path, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(descriptor, &byte, 1, i), 1);
        byte ^= 1;
        assert_int_equal(pwrite(descriptor, &byte, 1, i), 1);
        close(descriptor);
        assert_false(mask_counts_load(&kept, counts));
        assert_int_equal(known_count(&options), 7);
        assert_true(mask_counts_load(&kept, counts));
    }
    struct mask_counts other = kept;
    other.sample_count = 2;
    assert_false(mask_counts_load(&other, counts));
    other = kept;
    other.context = 5;
    assert_false(mask_counts_load(&other, counts));
    other = kept;
    other.key.low++;
    assert_false(mask_counts_load(&other, counts));
    assert_int_equal(truncate(kept.path, status.st_size - 1), 0);
    assert_int_equal(known_count(&options), 7);
    other.path = (char[]){"/nowhere/at/all"};
    assert_true(mask_counts_keep(&other, counts, &error) < 0);
}

static void test_bad_byte_of_a_mapped_mask(void **state)
{
    (void)state;
    struct dataset_options options = masked();
    uint8_t mask[13] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 7, 1, 1, 2};
    test_folder_write("mask", mask, sizeof(mask));
    data_folder_expect_failure(&options, -EINVAL, "mask: byte 7 at position 9: 0 or 1 is needed");
}

static void test_counts_are_bounded(void **state)
{
    (void)state;
    struct dataset_options options = masked();
    assert_int_equal(known_count(&options), 7);
    make_entry(options.memo_folder, 3, DIGEST_FOLDER_MAX_BYTES); /* a hole */
    options.context = 3; /* known data, and counts that are kept now */
    assert_int_equal(known_count(&options), 2 + 2 + 1 + 2);
    assert_int_equal(count_files(options.memo_folder), 3);
}

/* ---- rot ---- */

static void overwrite(const char *name, off_t offset, char byte)
{
    int descriptor = open(test_folder_at(name), O_WRONLY);

    assert_true(descriptor >= 0 && pwrite(descriptor, &byte, 1, offset) == 1);
    close(descriptor);
    set_modified(name, 1000, 5);
}

/* A mapped file that changes after its check gives no token outside the vocabulary to the model,
 * and is read again by the next start. */
static void test_rot_is_found_when_a_sample_is_read(void **state)
{
    static char text[3 << 20];
    int32_t tokens[8], targets[8];
    struct error error = {0};

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    write_tokens("tokens", text);
    write_tokens("validation", text);
    struct dataset_options options = remembered();
    options.vocab = 'b';
    options.validation_path = test_folder_at("validation");
    dataset_close(data_folder_open(&options));
    struct dataset *dataset = data_folder_open(&options);
    assert_true(dataset_was_known(dataset));
    for (unsigned i = 0; i < 4; i++) /* all of sample 2, and the last target of sample 1 */
        overwrite("tokens", 8 + i, 'b');
    unsigned bad = 0;
    for (uint64_t i = 0; i < dataset_train_count(dataset); i++) {
        int status = dataset_train_batch(dataset, i, 1, tokens, targets, &error);
        assert_true(status == 0 || status == -ERANGE);
        if (status == 0)
            continue;
        bad++;
        assert_non_null(strstr(error.text, "tokens: token 98 at position 8 is outside"));
        assert_non_null(strstr(error.text, "firnctl node resume"));
    }
    assert_int_equal(bad, 2);

    overwrite("validation", 5, 'c');
    assert_int_equal(dataset_validation_batch(dataset, 0, 1, tokens, targets, &error), 0);
    assert_int_equal(dataset_validation_batch(dataset, 0, 2, tokens, targets, &error), -ERANGE);
    assert_non_null(strstr(error.text, "validation: token 99 at position 5 is outside"));
    dataset_close(dataset);
}

/* Rot moves no time: the entry that hides it goes. */
static void test_rot_that_was_found_is_not_known(void **state)
{
    static char text[3 << 20];
    int32_t tokens[4], targets[4];
    char entry[512], kept[512], restored[512];
    struct error error = {0};

    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    write_tokens("tokens", text);
    struct dataset_options options = remembered();
    options.vocab = 'b';
    dataset_close(data_folder_open(&options));
    find_entry(&options, entry);
    read_entry(entry, kept);
    overwrite("tokens", 0, 'b');
    find_entry(&options, restored);
    char *name = strstr(kept, "key ") + 4;
    memcpy(name, strrchr(restored, '/') + 1, HASH128_TEXT_SIZE - 1);
    write_entry(restored, kept); /* as if no time had moved */
    struct dataset *dataset = data_folder_open(&options);
    assert_true(dataset_was_known(dataset));
    int status = 0;
    for (uint64_t i = 0; status == 0 && i < dataset_train_count(dataset); i++)
        status = dataset_train_batch(dataset, i, 1, tokens, targets, &error);
    assert_int_equal(status, -ERANGE);
    dataset_close(dataset);
    data_folder_expect_failure(&options, -ERANGE, "tokens: token 98 at position 0");
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
        IN_FOLDER(test_reader_waits_until_files_are_settled),
        IN_FOLDER(test_changes_of_the_future_are_not_trusted),
        IN_FOLDER(test_damaged_entries_are_made_anew),
        IN_FOLDER(test_entries_of_others_are_not_trusted),
        IN_FOLDER(test_folder_is_bounded),
        IN_FOLDER(test_counts_of_a_mask_are_kept),
        IN_FOLDER(test_damaged_counts_are_made_anew),
        IN_FOLDER(test_bad_byte_of_a_mapped_mask),
        IN_FOLDER(test_counts_are_bounded),
        IN_FOLDER(test_rot_is_found_when_a_sample_is_read),
        IN_FOLDER(test_rot_that_was_found_is_not_known),
        IN_FOLDER(test_a_folder_that_cannot_be_written),
        IN_FOLDER(test_a_change_while_it_is_read),
        IN_FOLDER(test_workers_that_start_together_read_once),
        IN_FOLDER(test_a_reader_that_dies),
        IN_FOLDER(test_reading_is_told_of),
        IN_FOLDER(test_waiting_is_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
