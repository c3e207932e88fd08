/* Tests of data sets: samples and their order, held-out samples, the digest, and every error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "lib/base/test_folder.h"
#include "lib/model/data_folder.h"

/* ---- samples ---- */

static void test_samples_of_a_file(void **state)
{
    (void)state;
    test_folder_write_text("a.txt",
                           "abcdefghijklm"); /* 13 tokens: samples abcd|e, efgh|i, ijkl|m */
    const char *path = test_folder_at("a.txt");
    struct dataset_options options = data_folder_options(&path, 1);
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[4], targets[4];
    unsigned seen = 0;

    assert_int_equal(dataset_token_count(dataset), 13);
    assert_int_equal(dataset_train_count(dataset), 3);
    assert_int_equal(dataset_validation_count(dataset), 0);
    for (uint64_t i = 0; i < 3; i++) {
        data_folder_train(dataset, i, 1, tokens, targets);
        unsigned sample = ((unsigned)tokens[0] - 'a') / 4;
        for (unsigned k = 0; k < 4; k++) {
            assert_int_equal(tokens[k], 'a' + 4 * sample + k);
            assert_int_equal(targets[k], tokens[k] + 1);
        }
        seen |= 1u << sample;
    }
    assert_int_equal(seen, 7);
    dataset_close(dataset);
}

/* A file of @count uint16 tokens 0, 1, 2, ...: a token says which sample it is from. */
static void write_counting(const char *name, unsigned count)
{
    uint16_t tokens[4096];
    assert_true(count <= ARRAY_COUNT(tokens));
    for (unsigned i = 0; i < count; i++)
        tokens[i] = (uint16_t)i;
    test_folder_write(name, tokens, count * sizeof(tokens[0]));
}

static void epoch_order(const struct dataset *dataset, uint64_t epoch, unsigned *ret_samples)
{
    uint64_t count = dataset_train_count(dataset);
    int32_t tokens[4], targets[4];
    for (uint64_t i = 0; i < count; i++) {
        data_folder_train(dataset, epoch * count + i, 1, tokens, targets);
        ret_samples[i] = (unsigned)tokens[0] / 4;
    }
}

static void test_each_epoch_visits_every_sample_once(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 1000 + 1);
    const char *path = test_folder_at("count.bin");
    struct dataset_options options = data_folder_options(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 4001;
    options.validation_share = 0.1;
    struct dataset *dataset = data_folder_open(&options);
    unsigned orders[3][1000];

    assert_int_equal(dataset_train_count(dataset), 900);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        bool seen[1000] = {false};
        epoch_order(dataset, epoch, orders[epoch]);
        for (unsigned i = 0; i < 900; i++) {
            assert_true(orders[epoch][i] < 900); /* none of those held out */
            assert_false(seen[orders[epoch][i]]);
            seen[orders[epoch][i]] = true;
        }
    }
    assert_memory_not_equal(orders[0], orders[1], 900 * sizeof(unsigned));
    assert_memory_not_equal(orders[1], orders[2], 900 * sizeof(unsigned));
    dataset_close(dataset);

    options.seed++;
    dataset = data_folder_open(&options);
    epoch_order(dataset, 0, orders[1]);
    assert_memory_not_equal(orders[0], orders[1], 900 * sizeof(unsigned));
    dataset_close(dataset);
}

static void test_a_batch_is_its_samples(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 10 + 1);
    const char *path = test_folder_at("count.bin");
    struct dataset_options options = data_folder_options(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 41;
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[6 * 4], targets[6 * 4], token[4], target[4];

    data_folder_train(dataset, 7, 6, tokens, targets); /* over the end of the first epoch */
    for (unsigned i = 0; i < 6; i++) {
        data_folder_train(dataset, 7 + i, 1, token, target);
        assert_memory_equal(tokens + 4 * i, token, sizeof(token));
        assert_memory_equal(targets + 4 * i, target, sizeof(target));
    }
    dataset_close(dataset);
}

static void test_validation_is_the_last_share(void **state)
{
    (void)state;
    write_counting("count.bin", 4 * 10 + 1);
    const char *path = test_folder_at("count.bin");
    struct dataset_options options = data_folder_options(&path, 1);
    options.format = DATASET_UINT16;
    options.vocab = 41;
    options.validation_share = 0.2;
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[3 * 4], targets[3 * 4];

    assert_int_equal(dataset_train_count(dataset), 8);
    assert_int_equal(dataset_validation_count(dataset), 2);
    data_folder_validate(dataset, 0, 3, tokens, targets); /* two, and none */
    assert_int_equal(tokens[0], 32);
    assert_int_equal(tokens[4], 36);
    assert_int_equal(targets[7], 40);
    for (int i = 8; i < 12; i++)
        assert_int_equal(targets[i], -1);
    assert_int_equal(dataset_validation_counted(dataset, 0, 3), 2 * 4);
    assert_int_equal(dataset_validation_counted(dataset, 1, 3), 4);
    assert_int_equal(dataset_validation_counted(dataset, 2, 3), 0);
    dataset_close(dataset);

    options.validation_share = 0.001; /* asked for: at least one */
    dataset = data_folder_open(&options);
    assert_int_equal(dataset_validation_count(dataset), 1);
    dataset_close(dataset);
    options.validation_share = 0.9999; /* but training keeps one */
    dataset = data_folder_open(&options);
    assert_int_equal(dataset_train_count(dataset), 1);
    dataset_close(dataset);
}

static void test_validation_of_its_own(void **state)
{
    (void)state;
    test_folder_write_text("train.txt", "abcdefghi");
    test_folder_write_text("other.txt", "ABCDEFGHIJKLM");
    const char *path = test_folder_at("train.txt");
    struct dataset_options options = data_folder_options(&path, 1);
    char other[256];
    snprintf(other, sizeof(other), "%s", test_folder_at("other.txt"));
    options.validation_path = other;
    options.validation_share = 0.5; /* ignored */
    struct dataset *dataset = data_folder_open(&options);
    int32_t tokens[4], targets[4];

    assert_int_equal(dataset_train_count(dataset), 2);
    assert_int_equal(dataset_validation_count(dataset), 3);
    assert_int_equal(dataset_token_count(dataset), 22);
    data_folder_validate(dataset, 2, 1, tokens, targets);
    assert_int_equal(tokens[0], 'I');
    assert_int_equal(targets[3], 'M');
    dataset_close(dataset);

    test_folder_write_text("other.txt", "ABCD");
    data_folder_expect_failure(&options, -ENODATA, "other.txt: 4 tokens");
    options.validation_path = test_folder_at("absent.txt");
    data_folder_expect_failure(&options, -ENOENT, "absent.txt");
}

/* ---- errors ---- */

static void test_too_little_data(void **state)
{
    (void)state;
    test_folder_add("empty");
    const char *path = test_folder_at("empty");
    struct dataset_options options = data_folder_options(&path, 1);
    data_folder_expect_failure(&options, -ENODATA, "0 tokens are too few: one sample needs 5");
    test_folder_write_text("empty/a", "abcd");
    data_folder_expect_failure(&options, -ENODATA, "empty: 4 tokens are too few");
    test_folder_write_text("empty/b", "e");
    dataset_close(data_folder_open(&options));
    path = test_folder_at("absent");
    data_folder_expect_failure(&options, -ENOENT, "absent: no such file or folder");
}

static void test_bad_options(void **state)
{
    (void)state;
    test_folder_write_text("a", "abcdefghi");
    const char *path = test_folder_at("a");
    struct dataset_options options = data_folder_options(&path, 1);
    options.validation_share = 1.0;
    data_folder_expect_failure(&options, -EINVAL, "data.validation");
    options.validation_share = -0.1;
    data_folder_expect_failure(&options, -EINVAL, "data.validation");
    options.validation_share = __builtin_nan("");
    data_folder_expect_failure(&options, -EINVAL, "data.validation");
    options = data_folder_options(&path, 0);
    data_folder_expect_failure(&options, -EINVAL, "data.path");
    options = data_folder_options(&path, 1);
    options.context = 0;
    data_folder_expect_failure(&options, -EINVAL, "context");
}

/* ---- digest ---- */

static struct hash128 digest_of(const char *path, enum dataset_format format)
{
    struct dataset_options options = data_folder_options(&path, 1);
    options.format = format;
    options.vocab = 65536;
    struct dataset *dataset = data_folder_open(&options);
    struct hash128 digest = dataset_digest(dataset);
    dataset_close(dataset);
    return digest;
}

static void test_digest(void **state)
{
    (void)state;
    test_folder_add("one");
    test_folder_add("two");
    test_folder_write_text("one/x", "abcdefghijkl");
    test_folder_write_text("two/a", "abcd");
    test_folder_write_text("two/b", "efghijkl");
    struct hash128 digest = digest_of(test_folder_at("one"), DATASET_BYTES);
    assert_true(hash128_equal(digest, digest_of(test_folder_at("two"), DATASET_BYTES)));
    assert_false(hash128_equal(digest, digest_of(test_folder_at("one"), DATASET_UINT16)));

    char text[] = "abcdefghijkl";
    for (size_t i = 0; i < strlen(text); i++) {
        text[i] ^= 1;
        test_folder_write_text("one/x", text);
        text[i] ^= 1;
        assert_false(hash128_equal(digest, digest_of(test_folder_at("one"), DATASET_BYTES)));
    }
    test_folder_write_text("one/x", "abcdefghijk");
    assert_false(hash128_equal(digest, digest_of(test_folder_at("one"), DATASET_BYTES)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_samples_of_a_file),
        IN_FOLDER(test_each_epoch_visits_every_sample_once),
        IN_FOLDER(test_a_batch_is_its_samples),
        IN_FOLDER(test_validation_is_the_last_share),
        IN_FOLDER(test_validation_of_its_own),
        IN_FOLDER(test_too_little_data),
        IN_FOLDER(test_bad_options),
        IN_FOLDER(test_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
