/* Folders that other programs wrote: types, several files, and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/read/model_folder.h"

#include "lib/checkpoint/foreign_folder.h"

static char folder[64];
static const float numbers[6] = {1, -2, 0.5f, 3, 1e-20f, -0.0f};
static const uint16_t halves[8] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x83ff, 0x8000, 0x7c00, 0x0400};
static const double half_values[8] = {1,    -2,       65504,         0x1p-24, -1023 * 0x1p-24,
                                      -0.0, INFINITY, 1024 * 0x1p-24};
static const uint16_t bfloats[3] = {0x3f80, 0xc040, 0x0001};
static const float bfloat_values[3] = {1, -3, 0x1p-133f};
static const int64_t integers[2] = {1, 2};

static const struct foreign_tensor tensors[] = {
    {"numbers", SAFETENSORS_F32, 2, {2, 3}, numbers},
    {"halves", SAFETENSORS_F16, 1, {8}, halves},
    {"bfloats", SAFETENSORS_BF16, 1, {3}, bfloats},
    {"integers", SAFETENSORS_I64, 1, {2}, integers},
};

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/firn-model-folder-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "a.safetensors", "b.safetensors", "config.json"};
    char path[512];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static void expect_values(struct model_folder *model)
{
    struct error error = {0};
    float values[8];

    assert_int_equal(model_folder_read(model, "numbers", (size_t[]){2, 3}, 2, values, &error), 0);
    assert_memory_equal(values, numbers, sizeof(numbers));
    assert_int_equal(model_folder_read(model, "halves", (size_t[]){8}, 1, values, &error), 0);
    for (size_t i = 0; i < 8; i++)
        assert_true((double)values[i] == half_values[i] &&
                    !signbit(values[i]) == !signbit(half_values[i]));
    assert_int_equal(model_folder_read(model, "bfloats", (size_t[]){3}, 1, values, &error), 0);
    assert_memory_equal(values, bfloat_values, sizeof(bfloat_values));
}

static void test_one_file(void **state)
{
    (void)state;
    struct model_folder *model;
    struct error error = {0};
    foreign_file(folder, "model.safetensors", tensors, ARRAY_COUNT(tensors));
    assert_int_equal(model_folder_open(folder, &model, &error), 0);
    expect_values(model);
    assert_true(model_folder_has(model, "halves"));
    assert_false(model_folder_has(model, "half"));
    model_folder_close(model);
}

static void test_several_files(void **state)
{
    (void)state;
    struct model_folder *model;
    struct error error = {0};
    foreign_file(folder, "a.safetensors", tensors, 1);
    foreign_file(folder, "b.safetensors", tensors + 1, 3);
    foreign_text(folder, "model.safetensors.index.json",
                 "{\"weight_map\": {\"numbers\": \"a.safetensors\", \"halves\": \"b.safetensors\", "
                 "\"bfloats\": \"b.safetensors\"}}");
    assert_int_equal(model_folder_open(folder, &model, &error), 0);
    expect_values(model);
    model_folder_close(model);
}

/* More than is converted at once. */
static void test_a_large_tensor(void **state)
{
    (void)state;
    enum { COUNT = 700001 };
    uint16_t *stored = calloc(COUNT, sizeof(*stored));
    float *values = calloc(COUNT, sizeof(*values));
    struct model_folder *model;
    struct error error = {0};

    for (uint32_t i = 0; i < COUNT; i++)
        stored[i] = (uint16_t)(0x3f80 + i % 100);
    const struct foreign_tensor large = {"large", SAFETENSORS_BF16, 1, {COUNT}, stored};
    foreign_file(folder, "model.safetensors", &large, 1);
    assert_int_equal(model_folder_open(folder, &model, &error), 0);
    assert_int_equal(model_folder_read(model, "large", (size_t[]){COUNT}, 1, values, &error), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(values[i] == 1.0f + (float)(i % 100) / 128);
    model_folder_close(model);
    free(stored);
    free(values);
}

static void expect_refused(struct model_folder *model, const char *name, size_t rows,
                           size_t columns, int status, const char *text)
{
    struct error error = {0};
    float values[8];
    assert_int_equal(
        model_folder_read(model, name, (size_t[]){rows, columns}, columns ? 2 : 1, values, &error),
        status);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

static void test_other_tensors_are_refused(void **state)
{
    (void)state;
    struct model_folder *model;
    struct error error = {0};
    foreign_file(folder, "model.safetensors", tensors, ARRAY_COUNT(tensors));
    assert_int_equal(model_folder_open(folder, &model, &error), 0);
    expect_refused(model, "nothing", 2, 3, -ENOENT, "no tensor nothing");
    expect_refused(model, "numbers", 3, 2, -EINVAL,
                   "numbers is 2 x 3; the job's model needs 3 x 2");
    expect_refused(model, "numbers", 6, 0, -EINVAL, "numbers is 2 x 3; the job's model needs 6");
    expect_refused(model, "integers", 2, 0, -EINVAL, "type I64");
    model_folder_close(model);
}

static void expect_not_opened(const char *index, int status, const char *text)
{
    struct model_folder *model;
    struct error error = {0};
    foreign_text(folder, "model.safetensors.index.json", index);
    assert_int_equal(model_folder_open(folder, &model, &error), status);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

static void test_an_index_stays_in_its_folder(void **state)
{
    (void)state;
    expect_not_opened("{\"weight_map\": {\"x\": \"../a.safetensors\"}}", -EBADMSG, "tensor x");
    expect_not_opened("{\"weight_map\": {\"x\": \"/etc/passwd\"}}", -EBADMSG, "tensor x");
    expect_not_opened("{\"weight_map\": {\"x\": \"..\"}}", -EBADMSG, "tensor x");
    expect_not_opened("{\"weight_map\": {\"x\": 7}}", -EBADMSG, "tensor x");
    expect_not_opened("{\"weight_map\": {\"x\": \"gone\"}}", -ENOENT, "gone");
    expect_not_opened("{}", -EINVAL, "weight_map");
}

static void test_an_empty_folder(void **state)
{
    (void)state;
    struct model_folder *model;
    struct error error = {0};
    json_t *config;
    assert_int_equal(model_folder_open(folder, &model, &error), -ENOENT);
    assert_non_null(strstr(error.text, "model.safetensors"));
    assert_int_equal(model_folder_config(folder, &config, &error), -ENOENT);
    foreign_text(folder, "config.json", "{\"a\": 1}");
    assert_int_equal(model_folder_config(folder, &config, &error), 0);
    assert_int_equal(json_integer_value(json_object_get(config, "a")), 1);
    json_decref(config);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_file),
        TEST(test_several_files),
        TEST(test_a_large_tensor),
        TEST(test_other_tensors_are_refused),
        TEST(test_an_index_stays_in_its_folder),
        TEST(test_an_empty_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
