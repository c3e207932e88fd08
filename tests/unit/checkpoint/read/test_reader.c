/* The reader: returned data are right to the bit, and wrong data are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/safetensors.h"
#include "lib/checkpoint/sample.h"

#define STEP  12
#define WORLD 2

struct fixture {
    char folder[64], path[1024];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    sample_folder(fixture->folder);
    sample_write(fixture->folder, STEP, WORLD);
    checkpoint_path(fixture->folder, STEP, fixture->path);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    sample_remove(fixture->folder);
    free(fixture);
    return 0;
}

static const char *const files[] = {"model-00001-of-00002.safetensors",
                                    "model-00002-of-00002.safetensors",
                                    "optimizer-00001-of-00002.safetensors",
                                    "optimizer-00002-of-00002.safetensors",
                                    "model.safetensors.index.json",
                                    "config.json",
                                    "manifest.json"};

static void flip(const char *path, uint64_t bit)
{
    uint8_t byte;
    int descriptor = open(path, O_RDWR);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
    close(descriptor);
}

static void assert_refused(const char *path, int code, const char *file, const char *cause)
{
    struct checkpoint_reader *reader;
    struct error error = {0};
    int status = checkpoint_open(path, &reader, &error);
    if (status == 0)
        checkpoint_close(reader);
    assert_int_equal(status, code);
    assert_int_equal(error.code, code);
    if (!strstr(error.text, file) || !strstr(error.text, cause))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", error.text, file, cause);
}

static void test_a_moved_folder_opens(void **state)
{
    struct fixture *fixture = *state;
    struct checkpoint_reader *reader;
    struct error error = {0};
    char moved[128];
    snprintf(moved, sizeof(moved), "%s/elsewhere", fixture->folder);
    assert_int_equal(rename(fixture->path, moved), 0);
    assert_int_equal(checkpoint_open(moved, &reader, &error), 0);
    assert_int_equal(sample_compare(reader, STEP, &error), 0);
    const struct manifest *manifest = checkpoint_manifest(reader);
    assert_int_equal(manifest->tensor_count, SAMPLE_TENSORS);
    assert_int_equal(manifest->step, STEP);
    assert_string_equal(json_string_value(json_object_get(manifest->spec, "name")), "sample");
    float value;
    assert_int_equal(
        checkpoint_read(reader, "unit.9.weight", MANIFEST_PARAMETER, &value, 1, &error), -ENOENT);
    assert_int_equal(
        checkpoint_read(reader, "unit.0.weight", MANIFEST_PARAMETER, &value, 1, &error), -EINVAL);
    checkpoint_close(reader);
    checkpoint_close(NULL);
}

/* Stride and offset are coprime to 8, so all bits of a byte and all parts of the files are met. */
static void test_every_flipped_bit_is_found(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        char path[FOLDER_FILE_SIZE];
        struct stat found;
        folder_file_path(fixture->path, files[i], path);
        assert_int_equal(stat(path, &found), 0);
        for (uint64_t bit = i; bit < (uint64_t)found.st_size * 8; bit += 1013) {
            struct error error = {0};
            flip(path, bit);
            int status = sample_check(fixture->folder, STEP, &error);
            flip(path, bit);
            if (status != -EBADMSG || !strstr(error.text, files[i]))
                fail_msg("%s bit %lu: %d \"%s\"", files[i], (unsigned long)bit, status, error.text);
        }
    }
    struct error error = {0};
    assert_int_equal(sample_check(fixture->folder, STEP, &error), 0);
}

/* Without a scrub, the read itself must notice. */
static void test_reading_notices_damage(void **state)
{
    struct fixture *fixture = *state;
    char path[FOLDER_FILE_SIZE];
    struct checkpoint_reader *reader;
    struct error error = {0};
    float values[2048];
    assert_int_equal(checkpoint_open(fixture->path, &reader, &error), 0);
    folder_file_path(fixture->path, files[0], path);
    const struct manifest_tensor *tensor = &checkpoint_manifest(reader)->tensors[0];
    assert_string_equal(tensor->file, files[0]);
    for (uint64_t byte = 0; byte < tensor->size_bytes; byte += 61) {
        flip(path, (tensor->offset + byte) * 8 + byte % 8);
        assert_int_equal(checkpoint_read(reader, tensor->name, tensor->role, values, 2048, &error),
                         -EBADMSG);
        assert_non_null(strstr(error.text, files[0]));
        assert_non_null(strstr(error.text, "chunk 0"));
        flip(path, (tensor->offset + byte) * 8 + byte % 8);
    }
    flip(path, (tensor->offset - 1) * 8); /* a neighbour's damage is not this tensor's */
    assert_int_equal(checkpoint_read(reader, tensor->name, tensor->role, values, 2048, &error), 0);
    assert_int_equal(truncate(path, (off_t)tensor->offset + 100), 0); /* under the open reader */
    assert_int_equal(checkpoint_read(reader, tensor->name, tensor->role, values, 2048, &error),
                     -EBADMSG);
    checkpoint_close(reader);
}

/* A look finds the same, unless the file's content has to be read for it. */
static void assert_seen(const char *path, const char *file)
{
    struct error error = {0};
    assert_int_not_equal(checkpoint_look(path, &error), 0);
    if (!strstr(error.text, file))
        fail_msg("\"%s\" does not say \"%s\"", error.text, file);
}

static void test_missing_and_misshapen_files_are_named(void **state)
{
    struct fixture *fixture = *state;
    char path[FOLDER_FILE_SIZE], aside[FOLDER_FILE_SIZE + 8];
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        struct stat status;
        folder_file_path(fixture->path, files[i], path);
        snprintf(aside, sizeof(aside), "%s.aside", path);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(rename(path, aside), 0);
        assert_refused(fixture->path, -ENOENT, files[i], "No such file");
        assert_seen(fixture->path, files[i]);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_refused(fixture->path, i == 6 ? -EISDIR : -EBADMSG, files[i], "");
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(rename(aside, path), 0);
        assert_int_equal(truncate(path, status.st_size + 1), 0);
        assert_refused(fixture->path, -EBADMSG, files[i], i == 6 ? "checksum" : "too long");
        assert_seen(fixture->path, files[i]);
        assert_int_equal(truncate(path, status.st_size), 0);
        struct error error = {0};
        assert_int_equal(checkpoint_look(fixture->path, &error), 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        folder_file_path(fixture->path, files[i], path);
        assert_int_equal(truncate(path, 10), 0);
        assert_refused(fixture->path, -EBADMSG, i == 6 ? files[i] : "truncated", "truncated");
        if (i < 6)
            assert_int_equal(unlink(path), 0);
        sample_remove(fixture->path);
        sample_write(fixture->folder, STEP, WORLD);
    }
}

/* Rewrite the manifest with @edit and a right checksum, so that only the reader's own checks can
 * refuse it. */
static void rewrite_manifest(const char *folder, void (*edit)(struct manifest *manifest))
{
    struct manifest manifest;
    struct error error = {0};
    struct bytes text = {0};
    char path[FOLDER_FILE_SIZE];
    assert_int_equal(manifest_load(folder, NULL, &manifest, &error), 0);
    edit(&manifest);
    assert_int_equal(manifest_seal(&manifest, manifest.tensor_count, &error), 0);
    assert_int_equal(manifest_text(&manifest, &text), 0);
    folder_file_path(folder, MANIFEST_NAME, path);
    assert_int_equal(file_replace(path, text.data, text.size_bytes, 0644, &error), 0);
    bytes_done(&text);
    manifest_done(&manifest);
}

static void shift_tensor(struct manifest *manifest)
{
    manifest->tensors[0].offset += 4;
}

static void shrink_tensor(struct manifest *manifest)
{
    manifest->tensors[0].size_bytes -= 4;
}

static void rename_tensor(struct manifest *manifest)
{
    manifest->tensors[0].name[0] = 'x';
}

static void double_tensor(struct manifest *manifest)
{
    memcpy(manifest->tensors[3].name, manifest->tensors[0].name, 128);
}

static void drop_tensor(struct manifest *manifest)
{
    manifest->tensor_count--;
}

static void move_tensor(struct manifest *manifest)
{
    snprintf(manifest->tensors[0].file, MANIFEST_FILE_SIZE, "config.json");
    manifest->tensors[0].offset = manifest->tensors[0].size_bytes = 0;
}

static void wrong_hash(struct manifest *manifest)
{
    manifest->tensors[0].hash.low ^= 1;
}

static void test_a_manifest_of_other_files_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        void (*edit)(struct manifest *manifest);
        const char *cause;
    } cases[] = {
        {shift_tensor, "not the one"},  {shrink_tensor, "not the one"},
        {rename_tensor, "not the one"}, {double_tensor, "twice"},
        {drop_tensor, "tensors"},       {move_tensor, "would lie in"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        rewrite_manifest(fixture->path, cases[i].edit);
        assert_refused(fixture->path, -EBADMSG, "step-", cases[i].cause);
        sample_remove(fixture->path);
        sample_write(fixture->folder, STEP, WORLD);
    }
    rewrite_manifest(fixture->path, wrong_hash);
    struct checkpoint_reader *reader;
    struct error error = {0};
    float values[2048];
    assert_int_equal(checkpoint_open(fixture->path, &reader, &error), 0);
    assert_int_equal(
        checkpoint_read(reader, "unit.0.weight", MANIFEST_PARAMETER, values, 2048, &error),
        -EBADMSG);
    assert_non_null(strstr(error.text, "does not have the hash"));
    checkpoint_close(reader);
}

/* Another safetensors file under the same name, with manifest sizes and checksums made to agree. */
static void replace_header(const char *folder, const char *header, size_t padding)
{
    struct manifest manifest;
    struct error error = {0};
    char path[FOLDER_FILE_SIZE];
    assert_int_equal(manifest_load(folder, NULL, &manifest, &error), 0);
    struct manifest_file *file = &manifest.files[0];
    assert_string_equal(file->name, files[0]);
    size_t length = strlen(header), size = (size_t)file->size_bytes;
    uint8_t *content = calloc(1, size);
    bytes_put_u64(content, length + padding);
    memcpy(content + 8, header, length);
    memset(content + 8 + length, ' ', padding);
    file->chunk_crcs[0] = hash_crc32c(0, content, size);
    folder_file_path(folder, file->name, path);
    assert_int_equal(file_replace(path, content, size, 0644, &error), 0);
    struct bytes text = {0};
    assert_int_equal(manifest_text(&manifest, &text), 0);
    folder_file_path(folder, MANIFEST_NAME, path);
    assert_int_equal(file_replace(path, text.data, text.size_bytes, 0644, &error), 0);
    bytes_done(&text);
    manifest_done(&manifest);
    free(content);
}

static void test_foreign_safetensors_are_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *header, *cause;
    } cases[] = {
        {"{}", "follow the last tensor"},
        {"[]", "not an object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,9],\"data_offsets\":[0,4]}}",
         "overflows"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        replace_header(fixture->path, cases[i].header, 100);
        assert_refused(fixture->path, -EBADMSG, files[0], cases[i].cause);
    }
}

static void test_huge_headers_are_refused_before_memory_is_taken(void **state)
{
    struct fixture *fixture = *state;
    replace_header(fixture->path, "{}", 0);
    char path[FOLDER_FILE_SIZE];
    uint8_t length[8];
    folder_file_path(fixture->path, files[0], path);
    bytes_put_u64(length, 101u << 20);
    int descriptor = open(path, O_WRONLY);
    assert_int_equal(pwrite(descriptor, length, 8, 0), 8);
    close(descriptor);
    assert_refused(fixture->path, -EBADMSG, files[0], "105906176 bytes");
}

struct reading {
    struct checkpoint_reader *reader;
    int result;
};

static void *read_all(void *argument)
{
    struct reading *reading = argument;
    for (unsigned i = 0; i < 20 && reading->result == 0; i++)
        reading->result = sample_compare(reading->reader, STEP, NULL);
    return NULL;
}

static void test_many_threads_read_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    pthread_t threads[4];
    struct reading readings[4] = {0};
    struct checkpoint_reader *reader;
    assert_int_equal(checkpoint_open(fixture->path, &reader, &error), 0);
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        readings[i].reader = reader;
        pthread_create(&threads[i], NULL, read_all, &readings[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readings[i].result, 0);
    }
    checkpoint_close(reader);
}

struct watch {
    uint64_t last, total;
    unsigned calls;
};

static void watch_progress(void *context, uint64_t done, uint64_t total)
{
    struct watch *watch = context;
    assert_true(done <= total);
    watch->last = done;
    watch->total = total;
    watch->calls++;
}

static void test_verify_reports_progress_and_the_first_damage(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    struct watch watch = {0};
    struct checkpoint_reader *reader;
    char path[FOLDER_FILE_SIZE];
    assert_int_equal(checkpoint_open(fixture->path, &reader, &error), 0);
    assert_int_equal(checkpoint_verify(reader, watch_progress, &watch, &error), 0);
    assert_true(watch.calls > 0);
    assert_int_equal(watch.last, watch.total);
    for (size_t i = 4; i-- > 0;) { /* from the last file to the first: always the first is named */
        folder_file_path(fixture->path, files[i], path);
        flip(path, 8 * 4100);
        assert_int_equal(checkpoint_verify(reader, NULL, NULL, &error), -EBADMSG);
        assert_non_null(strstr(error.text, files[i]));
        assert_non_null(strstr(error.text, "chunk 0"));
    }
    checkpoint_close(reader);
}

static int verify(const struct fixture *fixture, struct error *error)
{
    struct checkpoint_reader *reader;
    if (checkpoint_open(fixture->path, &reader, error) != 0)
        fail_msg("%s", error->text);
    int status = checkpoint_verify(reader, NULL, NULL, error);
    checkpoint_close(reader);
    return status;
}

static void test_damaged_metrics_are_told_apart(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};
    char path[FOLDER_FILE_SIZE], other[FOLDER_FILE_SIZE];
    sample_make_metrics(fixture->path);
    assert_int_equal(verify(fixture, &error), 0);
    folder_file_path(fixture->path, SAMPLE_METRICS, path);
    flip(path, 8);
    assert_int_equal(verify(fixture, &error), CHECKPOINT_METRICS_BAD);
    assert_non_null(strstr(error.text, SAMPLE_METRICS));
    assert_int_equal(unlink(path), 0);
    error_clear(&error);
    assert_int_equal(verify(fixture, &error), CHECKPOINT_METRICS_BAD);
    assert_non_null(strstr(error.text, SAMPLE_METRICS));
    struct checkpoint_reader *reader;
    assert_int_equal(checkpoint_open(fixture->path, &reader, &error), 0);
    folder_file_path(fixture->path, files[0], other);
    flip(other, 8 * 4100); /* that counts */
    assert_int_equal(checkpoint_verify(reader, NULL, NULL, &error), -EBADMSG);
    assert_non_null(strstr(error.text, files[0]));
    checkpoint_close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_moved_folder_opens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_flipped_bit_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reading_notices_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_and_misshapen_files_are_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_manifest_of_other_files_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_foreign_safetensors_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huge_headers_are_refused_before_memory_is_taken,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_threads_read_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verify_reports_progress_and_the_first_damage, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_metrics_are_told_apart, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
