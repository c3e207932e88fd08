/* Export of a checkpoint as a plain Hugging Face folder: its content, and that it is whole or
 * absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/export.h"
#include "lib/checkpoint/sample.h"

#define STEP 3

static char folder[64], from[FOLDER_PATH_SIZE], to[128];

static int set_up(void **state)
{
    (void)state;
    sample_frozen = 2;
    sample_folder(folder);
    sample_write(folder, STEP, 2);
    checkpoint_path(folder, STEP, from);
    snprintf(to, sizeof(to), "%s/plain", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    sample_frozen = 0;
    return 0;
}

static int run(enum safetensors_dtype dtype, struct error *error)
{
    const struct checkpoint_export export = {.from = from, .to = to, .dtype = dtype};
    return checkpoint_export(&export, error);
}

static unsigned count_entries(const char *path)
{
    unsigned count = 0;
    const struct dirent *entry;
    DIR *directory = opendir(path);
    while ((entry = readdir(directory)))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static const struct checkpoint_tensor *find(const struct sample *sample, const char *name)
{
    for (unsigned i = 0; i < sample->count; i++) {
        if (sample->tensors[i].role == MANIFEST_PARAMETER &&
            strcmp(sample->tensors[i].name, name) == 0)
            return &sample->tensors[i];
    }
    fail_msg("no parameter is called %s", name);
    return NULL;
}

static void assert_values(const struct checkpoint_tensor *tensor, enum safetensors_dtype dtype,
                          const uint8_t *data)
{
    for (size_t i = 0; i < tensor->count; i++) {
        if (dtype == SAFETENSORS_F32)
            assert_memory_equal(data + 4 * i, &tensor->data[i], 4);
        else
            assert_int_equal(data[2 * i] | data[2 * i + 1] << 8, export_bf16(tensor->data[i]));
    }
}

static void assert_exported(enum safetensors_dtype dtype)
{
    char path[256];
    struct error error = {0};
    struct safetensors_index index;
    struct bytes content = {0};
    struct sample sample;
    sample_init(&sample, STEP);
    snprintf(path, sizeof(path), "%s/model.safetensors", to);
    assert_int_equal(safetensors_open(path, &index, &error), 0);
    assert_int_equal(file_read(path, 1 << 24, &content, &error), 0);
    assert_int_equal(index.count, SAMPLE_SHAPES);
    assert_int_equal(index.file_bytes, content.size_bytes);
    for (size_t i = 0; i < index.count; i++) {
        const struct safetensors_entry *entry = &index.entries[i];
        const struct checkpoint_tensor *tensor = find(&sample, entry->name);
        assert_int_equal(entry->dtype, dtype);
        assert_int_equal(entry->rank, tensor->rank);
        for (unsigned k = 0; k < entry->rank; k++)
            assert_int_equal(entry->shape[k], tensor->shape[k]);
        assert_values(tensor, dtype, content.data + entry->offset);
    }
    bytes_done(&content);
    safetensors_index_done(&index);
    sample_done(&sample);
}

static void test_every_parameter_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        enum safetensors_dtype dtype;
        const char *name;
    } cases[] = {{SAFETENSORS_F32, "float32"}, {SAFETENSORS_BF16, "bfloat16"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char path[256];
        struct error error = {0};
        if (run(cases[i].dtype, &error) != 0)
            fail_msg("%s", error.text);
        assert_int_equal(count_entries(to), 2);
        assert_exported(cases[i].dtype);
        snprintf(path, sizeof(path), "%s/config.json", to);
        json_t *config = json_load_file(path, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(config, "torch_dtype")),
                            cases[i].name);
        assert_string_equal(json_string_value(json_object_get(config, "model_type")), "gpt2");
        json_decref(config);
        sample_remove(to);
    }
}

static void test_nothing_is_overwritten(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(mkdir(to, 0755), 0);
    assert_int_equal(run(SAFETENSORS_F32, &error), -EEXIST);
    assert_non_null(strstr(error.text, to));
    assert_int_equal(count_entries(to), 0);
    assert_int_equal(rmdir(to), 0);
    assert_int_equal(run(SAFETENSORS_F16, &error), -EINVAL);
}

/* Also after an attempt that was killed. */
static void test_a_leftover_is_replaced(void **state)
{
    (void)state;
    char part[160], file[256];
    struct error error = {0};
    snprintf(part, sizeof(part), "%s.part", to);
    assert_int_equal(mkdir(part, 0755), 0);
    snprintf(file, sizeof(file), "%s/model.safetensors", part);
    assert_int_equal(file_replace(file, "half", 4, 0644, &error), 0);
    assert_int_equal(run(SAFETENSORS_F32, &error), 0);
    assert_exported(SAFETENSORS_F32);
}

static void test_damage_leaves_nothing(void **state)
{
    (void)state;
    char path[FOLDER_FILE_SIZE];
    uint8_t byte;
    struct error error = {0};
    folder_file_path(from, "model-00001-of-00002.safetensors", path);
    int descriptor = open(path, O_RDWR);
    struct stat status;
    assert_int_equal(fstat(descriptor, &status), 0);
    assert_int_equal(pread(descriptor, &byte, 1, status.st_size - 1), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, status.st_size - 1), 1);
    close(descriptor);
    unsigned before = count_entries(folder);
    assert_int_equal(run(SAFETENSORS_F32, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "model-00001-of-00002.safetensors"));
    assert_int_equal(count_entries(folder), before);
}

static void remove_source(void *context, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    *(uint64_t *)context = done;
    sample_remove(from);
}

/* Retention takes the checkpoint away after the first tensor. */
static void test_removal_meanwhile_takes_nothing_away(void **state)
{
    (void)state;
    uint64_t done = 0;
    struct error error = {0};
    const struct checkpoint_export export = {.from = from,
                                             .to = to,
                                             .dtype = SAFETENSORS_F32,
                                             .progress = remove_source,
                                             .context = &done};
    if (checkpoint_export(&export, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(done, 4 * (2048 + 33 + 1024 + 35 + 1 + 0 + 4500));
    assert_exported(SAFETENSORS_F32);
}

static uint16_t bf16_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return export_bf16(value);
}

static void test_rounding_is_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(bf16_of_bits(0x3f800000), 0x3f80);
    assert_int_equal(bf16_of_bits(0x3f808000), 0x3f80); /* a tie: down to even */
    assert_int_equal(bf16_of_bits(0x3f818000), 0x3f82); /* a tie: up to even */
    assert_int_equal(bf16_of_bits(0x3f808001), 0x3f81);
    assert_int_equal(bf16_of_bits(0xbf807fff), 0xbf80);
    assert_int_equal(bf16_of_bits(0x7f7fffff), 0x7f80); /* the largest finite overflows */
    assert_int_equal(bf16_of_bits(0xff800000), 0xff80);
    assert_int_equal(bf16_of_bits(0x80000000), 0x8000);
    assert_int_equal(bf16_of_bits(0x00000001), 0x0000);
    uint16_t nan = bf16_of_bits(0x7fffffff);
    assert_true((nan & 0x7f80) == 0x7f80 && (nan & 0x7f) != 0);
    nan = bf16_of_bits(0x7f800001);
    assert_true((nan & 0x7f80) == 0x7f80 && (nan & 0x7f) != 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_parameter_and_nothing_else),
        TEST(test_nothing_is_overwritten),
        TEST(test_a_leftover_is_replaced),
        TEST(test_damage_leaves_nothing),
        TEST(test_removal_meanwhile_takes_nothing_away),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
