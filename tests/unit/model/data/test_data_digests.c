/* Tests of the digests that a node keeps of large data, and of reading the data again. */
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

#include "lib/model/known_data.h"

#include "base/compiler.h"
#include "base/log.h"
#include "lib/base/test_folder.h"
#include "model/data/data_digests.h"
#include "model/data/digest_folder.h"
#include "model/data/mask_counts.h"

static void test_read_once(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));
    options.seed++; /* nothing that the tokens or the digest depend on */
    options.context = 3;
    assert_false(known_data_is_read(&options));
    options.memo_folder = NULL;
    assert_true(known_data_is_read(&options));
}

static void test_small_data_is_read(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    options.memory_max_bytes = 12;
    assert_true(known_data_is_read(&options));
    assert_true(known_data_is_read(&options));
    assert_int_equal(access(options.memo_folder, F_OK), -1);
}

static void test_changes_are_seen(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    known_data_rewrite("tokens", "abcdefghijkL");
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));

    known_data_set_modified("tokens", 1000, 6);
    assert_true(known_data_is_read(&options));
    known_data_write("tokens", "abcdefghijklm");
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));

    known_data_write("another", "mlkjihgfedcba"); /* another inode */
    assert_int_equal(rename(test_folder_at("another"), options.paths[0]), 0);
    assert_true(known_data_is_read(&options));
    const char *renamed = test_folder_at("renamed");
    assert_int_equal(rename(options.paths[0], renamed), 0);
    options.paths = &renamed;
    assert_true(known_data_is_read(&options));
}

static void test_other_checks_are_other_entries(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    options.vocab = 'm';
    assert_true(known_data_is_read(&options));
    options.vocab = 'l';
    data_folder_expect_failure(&options, -ERANGE, "tokens: token 108 at position 11 is outside");
    data_folder_expect_failure(&options, -ERANGE, "tokens: token 108 at position 11 is outside");
    options.vocab = 65536;
    options.format = DATASET_UINT16;
    assert_true(known_data_is_read(&options));
}

/* Which file is training data and which a mask counts as well. */
static void test_all_files_count(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    known_data_write("validation", "mlkjihgfedcba");
    const uint8_t ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    test_folder_write("mask", ones, sizeof(ones));
    known_data_set_modified("mask", 1000, 0);
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    options.validation_path = test_folder_at("validation");
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));
    const char *mask = test_folder_at("mask");
    options.mask_paths = &mask;
    options.mask_path_count = 1;
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));
    known_data_set_modified("mask", 1000, 1);
    assert_true(known_data_is_read(&options));
    known_data_set_modified("validation", 1000, 1);
    assert_true(known_data_is_read(&options));
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
    struct known_data_time slow = {.step_ns = NS_PER_SECOND / 5};
    const struct clock clock = {.realtime_ns = known_data_realtime, .context = &slow};

    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    options.clock = &clock;
    slow.fixed_ns = last_change_ns("tokens");
    assert_true(known_data_is_read(&options));
    assert_true(slow.fixed_ns >= last_change_ns("tokens") + 2 * NS_PER_SECOND);
    assert_in_range(slow.looks, 10, 15);
    slow.looks = 0;
    assert_false(known_data_is_read(&options));
    assert_int_equal(slow.looks, 0); /* nothing to wait for */
}

/* A clock that was set back, or the times of another machine. */
static void test_changes_of_the_future_are_not_trusted(void **state)
{
    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    known_data_set_modified("tokens", (time_t)1 << 33, 0);
    assert_true(known_data_is_read(&options));
    assert_true(known_data_is_read(&options));

    struct known_data_time early = {.ahead_ns = -100 * (int64_t)NS_PER_SECOND};
    const struct clock clock = {.realtime_ns = known_data_realtime, .context = &early};
    known_data_set_modified("tokens", 1000, 0);
    options.clock = &clock;
    assert_true(known_data_is_read(&options));
    assert_true(known_data_is_read(&options));
    options.clock = known_data_later();
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));
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
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
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
        assert_true(known_data_is_read(&options));
        assert_false(known_data_is_read(&options));
    }
    for (size_t i = 0; i < size_bytes; i += 7) {
        assert_int_equal(truncate(entry, (off_t)i), 0);
        assert_true(known_data_is_read(&options));
    }
    assert_false(known_data_is_read(&options));
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
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    find_entry(&options, entry);
    read_entry(entry, text);
    write_entry(entry, text);
    assert_false(known_data_is_read(&options)); /* as it was */
    strcpy(changed, text);
    *strstr(changed, " 1\n") = '\t';
    write_entry(entry, changed);
    assert_true(known_data_is_read(&options));
    strcpy(changed, text);
    strstr(changed, " 1\n")[1] = '2';
    write_entry(entry, changed);
    assert_true(known_data_is_read(&options));
    assert_false(known_data_is_read(&options));

    known_data_write("tokens", "abcdefghijkL");
    find_entry(&options, other);
    assert_string_not_equal(entry, other);
    write_entry(other, text);
    assert_true(known_data_is_read(&options));
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
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_true(known_data_is_read(&options));
    for (unsigned i = 1; i <= DIGEST_FOLDER_MAX; i++)
        make_entry(options.memo_folder, i, 0);
    options.vocab = 255;
    assert_true(known_data_is_read(&options));
    assert_int_equal(count_files(options.memo_folder), DIGEST_FOLDER_MAX);
    assert_false(known_data_is_read(&options));
    options.vocab = 256;
    assert_false(known_data_is_read(&options));
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

    known_data_write("tokens", "abcdefghijklm");
    test_folder_write("mask", mask, sizeof(mask));
    known_data_set_modified("mask", 1000, 0);
    mask_path = test_folder_at("mask");
    struct dataset_options options = known_data_options();
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
    known_data_rewrite("tokens", "abcdefghijkLm"); /* other data: nothing is known of it */
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
    known_data_set_modified(name, 1000, 5);
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
    known_data_write("tokens", text);
    known_data_write("validation", text);
    struct dataset_options options = known_data_options();
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
    known_data_write("tokens", text);
    struct dataset_options options = known_data_options();
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
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    test_folder_write_text("memo", "a file");
    assert_true(known_data_is_read(&options));
    assert_true(known_data_is_read(&options));
}

static void test_a_change_while_it_is_read(void **state)
{
    struct data_digests memo;
    struct error error = {0};

    (void)state;
    known_data_write("tokens", "abcdefghijkl");
    struct dataset_options options = known_data_options();
    assert_int_equal(data_digests_begin(&options, &memo, &error), 0);
    assert_false(memo.known);
    known_data_set_modified("tokens", 1001, 0);
    assert_int_equal(data_digests_end(&memo, &options, (struct hash128){1, 2}, &error), -EIO);
    assert_non_null(strstr(error.text, "changed while it was read"));
    data_digests_done(&memo);
    assert_true(known_data_is_read(&options));
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
