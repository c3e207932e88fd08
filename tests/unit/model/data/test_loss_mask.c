/* Which tokens count: in samples, in sums, over files, in the digest, and every mistake in a mask.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/model/data_folder.h"

#include "base/compiler.h"
#include "base/philox.h"
#include "lib/base/test_folder.h"
#include "model/data/loss_mask.h"

/* A mask is written as digits, to be read beside its text. */
static void write_mask(const char *name, const char *digits)
{
    char bytes[64];
    size_t count = strlen(digits);

    assert_true(count <= sizeof(bytes));
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(digits[i] - '0');
    test_folder_write(name, bytes, count);
}

static struct dataset_options masked(const char *const *path, const char *const *mask)
{
    struct dataset_options options = data_folder_options(path, 1);

    options.mask_paths = mask;
    options.mask_path_count = 1;
    return options;
}

static unsigned count_targets(const int32_t *targets, size_t count)
{
    unsigned counted = 0;

    for (size_t i = 0; i < count; i++)
        counted += targets[i] != LOSS_MASK_IGNORED;
    return counted;
}

/* A byte says of its own token whether it is a target: abcd|e, efgh|i, ijkl|m. */
static void test_targets_that_do_not_count(void **state)
{
    (void)state;
    test_folder_write_text("a.txt", "abcdefghijklm");
    write_mask("a.mask", "1100100000011");
    const char *path = test_folder_at("a.txt"), *mask = test_folder_at("a.mask");
    const struct dataset_options options = masked(&path, &mask);
    struct dataset *dataset = data_folder_open(&options);
    const int32_t want[3][4] = {{'b', -1, -1, 'e'}, {-1, -1, -1, -1}, {-1, -1, 'l', 'm'}};
    int32_t tokens[4], targets[4];
    unsigned seen = 0;

    for (uint64_t i = 0; i < 3; i++) {
        data_folder_train(dataset, i, 1, tokens, targets);
        unsigned sample = ((unsigned)tokens[0] - 'a') / 4;
        for (unsigned k = 0; k < 4; k++) /* input tokens are not masked */
            assert_int_equal(tokens[k], 'a' + 4 * sample + k);
        assert_memory_equal(targets, want[sample], sizeof(targets));
        assert_int_equal(dataset_train_counted(dataset, i, 1), count_targets(targets, 4));
        seen |= 1u << sample;
    }
    assert_int_equal(seen, 7);
    assert_int_equal(dataset_train_counted(dataset, 0, 3), 4);
    assert_int_equal(dataset_train_counted(dataset, 3, 6), 8); /* two more epochs */
    dataset_close(dataset);
}

static void test_without_a_mask_all_count(void **state)
{
    (void)state;
    test_folder_write_text("a.txt", "abcdefghijklm");
    const char *path = test_folder_at("a.txt");
    struct dataset_options options = data_folder_options(&path, 1);
    options.validation_share = 0.4;
    struct dataset *dataset = data_folder_open(&options);

    assert_int_equal(dataset_train_counted(dataset, 5, 7), 28);
    assert_int_equal(dataset_validation_counted(dataset, 0, 3), 4); /* there is one sample */
    dataset_close(dataset);
}

/* The last share uses the mask of its tokens; separate validation data have their own mask. */
static void test_validation(void **state)
{
    (void)state;
    test_folder_write_text("a.txt", "abcdefghijklm");
    write_mask("a.mask", "1111111110100");
    const char *path = test_folder_at("a.txt"), *mask = test_folder_at("a.mask");
    struct dataset_options options = masked(&path, &mask);
    options.validation_share = 0.4;
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[8], targets[8];

    data_folder_validate(dataset, 0, 2, tokens, targets); /* one sample, and none */
    assert_int_equal(dataset_validation_counted(dataset, 0, 2), 1);
    assert_int_equal(count_targets(targets, 8), 1);
    assert_int_equal(targets[1], 'k');
    dataset_close(dataset);

    test_folder_write_text("v.txt", "ABCDEFGHI");
    write_mask("v.mask", "000010011");
    char validation[256], validation_mask[256];
    snprintf(validation, sizeof(validation), "%s", test_folder_at("v.txt"));
    snprintf(validation_mask, sizeof(validation_mask), "%s", test_folder_at("v.mask"));
    options.validation_path = validation;
    options.validation_mask_path = validation_mask;
    dataset = data_folder_open(&options);
    data_folder_validate(dataset, 0, 2, tokens, targets);
    assert_int_equal(dataset_validation_counted(dataset, 0, 2), 3);
    assert_int_equal(dataset_train_counted(dataset, 0, 3), 9);
    assert_int_equal(targets[3], 'E');
    assert_int_equal(targets[7], 'I');
    assert_int_equal(count_targets(targets, 8), 3);
    dataset_close(dataset);

    write_mask("v.mask", "00001001");
    data_folder_expect_failure(&options, -EINVAL, "data.validation_mask: ");
}

/* Tokens of every width, some files empty, a mask for each: also where files are mapped. */
static void test_mapped_equals_copied(void **state)
{
    (void)state;
    const struct philox_key key = philox_key_make(3, 2);
    struct token_row row;
    struct loss_mask masks[2];
    struct error error = {0};
    char name[32];

    test_folder_add("t");
    test_folder_add("m");
    for (unsigned i = 0; i < 40; i++) {
        uint16_t tokens[8] = {0};
        uint32_t words[4];
        uint8_t mask[8];
        philox_block(key, i, 0, words);
        for (unsigned k = 0; k < 8; k++)
            mask[k] = (words[1] >> k) & 1;
        snprintf(name, sizeof(name), "t/%03u", i);
        test_folder_write(name, tokens, words[0] % 9 * sizeof(uint16_t));
        snprintf(name, sizeof(name), "m/%03u", i);
        test_folder_write(name, mask, words[0] % 9);
    }
    const char *path = test_folder_at("t"), *mask_path = test_folder_at("m");
    CLEANUP(file_list_done) struct file_list files = {0};
    assert_int_equal(file_list_find("data.path", &path, 1, &files, &error), 0);
    const struct token_row_options row_options = {
        .format = DATASET_UINT16, .files = &files, .vocab = 2, .memory_max_bytes = UINT64_MAX};
    assert_int_equal(token_row_open(&row_options, &row, &error), 0);
    struct loss_mask_options options = {.key = "data.mask",
                                        .paths = &mask_path,
                                        .path_count = 1,
                                        .files = &files,
                                        .row = &row,
                                        .context = 7,
                                        .sample_count = (row.count - 1) / 7};
    for (unsigned i = 0; i < 2; i++) {
        options.memory_max_bytes = i == 0 ? UINT64_MAX : 0;
        if (loss_mask_open(&options, &masks[i], &error) < 0)
            fail_msg("%s", error.text);
    }
    assert_true(masks[0].bytes.extent_count == 1 && masks[1].bytes.extent_count > 20);
    for (uint64_t sample = 0; sample < options.sample_count; sample++) {
        int32_t targets[2][7] = {{0}};
        for (unsigned i = 0; i < 2; i++) {
            loss_mask_apply(&masks[i], sample * 7 + 1, 7, targets[i]);
            assert_int_equal(loss_mask_count(&masks[i], sample), count_targets(targets[i], 7));
        }
        assert_memory_equal(targets[0], targets[1], sizeof(targets[0]));
    }
    loss_mask_done(&masks[0]);
    loss_mask_done(&masks[1]);
    token_row_done(&row);
}

static void test_bad_masks(void **state)
{
    (void)state;
    test_folder_add("t");
    test_folder_add("m");
    test_folder_write_text("t/a", "abcdef");
    test_folder_write_text("t/b", "ghijkl");
    write_mask("m/a", "010101");
    const char *path = test_folder_at("t"), *mask = test_folder_at("m");
    struct dataset_options options = masked(&path, &mask);
    data_folder_expect_failure(&options, -EINVAL, "data.mask: 1 files for 2 files of tokens");
    write_mask("m/b", "01010");
    data_folder_expect_failure(&options, -EINVAL, "m/b has 5 bytes for the 6 tokens of");
    data_folder_expect_failure(&options, -EINVAL, "t/b: one for each");
    write_mask("m/b", "010121");
    data_folder_expect_failure(&options, -EINVAL, "m/b: byte 2 at position 4: 0 or 1 is needed");
    write_mask("m/b", "010101");
    dataset_close(data_folder_open(&options));
    write_mask("m/a", "010100"); /* sizes that are right all together, and wrong one by one */
    test_folder_write_text("t/a", "abcde");
    test_folder_write_text("t/b", "fghijkl");
    data_folder_expect_failure(&options, -EINVAL, "m/a has 6 bytes for the 5 tokens of");
    mask = test_folder_at("absent");
    data_folder_expect_failure(&options, -ENOENT, "absent: no such file or folder");
}

static void test_a_mask_is_no_text(void **state)
{
    (void)state;
    test_folder_add("t");
    test_folder_write_text("t/a", "abcdef");
    write_mask("t/a.mask", "010101");
    const char *path = test_folder_at("t"), *mask = test_folder_at("t/*.mask");
    struct dataset_options options = masked(&path, &mask);
    data_folder_expect_failure(&options, -EINVAL, "t/a.mask is also among the files of tokens");
}

static void test_nothing_counts(void **state)
{
    (void)state;
    test_folder_write_text("a", "abcdefghi");
    write_mask("m", "100000000"); /* the first token is nobody's target */
    const char *path = test_folder_at("a"), *mask = test_folder_at("m");
    struct dataset_options options = masked(&path, &mask);
    data_folder_expect_failure(&options, -ENODATA, "no token of any training sample counts");
    write_mask("m", "000000001");
    dataset_close(data_folder_open(&options));
    options.validation_share = 0.5; /* the counted token is held out */
    data_folder_expect_failure(&options, -ENODATA, "no token of any training sample counts");
}

static struct hash128 digest_of(const struct dataset_options *options)
{
    struct dataset *dataset = data_folder_open(options);
    struct hash128 digest = dataset_digest(dataset);

    dataset_close(dataset);
    return digest;
}

static void test_digest(void **state)
{
    (void)state;
    test_folder_write_text("a", "abcdefghi");
    write_mask("m", "011111111");
    const char *path = test_folder_at("a"), *mask = test_folder_at("m");
    const struct dataset_options options = masked(&path, &mask),
                                 plain = data_folder_options(&path, 1);
    struct hash128 digest = digest_of(&options);

    assert_false(hash128_equal(digest, digest_of(&plain)));
    write_mask("m", "011110111");
    assert_false(hash128_equal(digest, digest_of(&options)));
    write_mask("m", "011111111");
    assert_true(hash128_equal(digest, digest_of(&options)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_targets_that_do_not_count),
        IN_FOLDER(test_without_a_mask_all_count),
        IN_FOLDER(test_validation),
        IN_FOLDER(test_mapped_equals_copied),
        IN_FOLDER(test_bad_masks),
        IN_FOLDER(test_a_mask_is_no_text),
        IN_FOLDER(test_nothing_counts),
        IN_FOLDER(test_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
