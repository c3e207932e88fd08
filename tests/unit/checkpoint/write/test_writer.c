/* The writer: the files on disk, the time when memory is released, and the contracts of begin,
 * poll and stop. */
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

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/write/folder_commit.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

#define FOREVER (UINT64_MAX / 2)

static void assert_written(const char *folder, uint64_t step)
{
    struct error error = {0};
    if (sample_check(folder, step, &error) != 0)
        fail_msg("%s", error.text);
}

static void test_both_backends_write_the_same_checkpoint(void **state)
{
    (void)state;
    const char *why;
    const struct io *tables[] = {io_threads_table(), io_probe(&why)};
    static const size_t blocks[] = {4096, 65536, 0};
    char digest[HASH128_TEXT_SIZE] = "", text[HASH128_TEXT_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(blocks); k++) {
            char folder[64], path[1024];
            struct error error = {0};
            struct manifest manifest;
            sample_folder(folder);
            struct checkpoint_writer *writer = sample_writer(tables[i], blocks[k]);
            assert_int_equal(sample_save(writer, tables[i], folder, 5, 1 + (unsigned)k, &error), 0);
            assert_written(folder, 5);
            checkpoint_path(folder, 5, path);
            assert_int_equal(manifest_load(path, NULL, &manifest, &error), 0);
            hash128_text(manifest.state_digest, text);
            if (digest[0] == '\0')
                memcpy(digest, text, sizeof(text));
            assert_string_equal(digest, text); /* for any layout, backend and block size */
            manifest_done(&manifest);
            checkpoint_writer_stop(writer);
            sample_remove(folder);
        }
    }
}

static void test_data_is_aligned_and_length_is_exact(void **state)
{
    (void)state;
    char folder[64], path[1024], file[2048];
    struct safetensors_index index;
    struct error error = {0};
    sample_folder(folder);
    sample_write(folder, 9, 1);
    checkpoint_path(folder, 9, path);
    snprintf(file, sizeof(file), "%s/model-00001-of-00001.safetensors", path);
    assert_int_equal(safetensors_open(file, &index, &error), 0);
    assert_int_equal(index.header_bytes % SAFETENSORS_ALIGN, 0);
    assert_int_equal(index.count, SAMPLE_SHAPES);
    for (size_t i = 0; i < index.count; i++) {
        if (index.entries[i].size_bytes % SAFETENSORS_ALIGN == 0)
            assert_int_equal(index.entries[i].offset % SAFETENSORS_ALIGN, 0);
    }
    assert_true(index.file_bytes % SAFETENSORS_ALIGN != 0);
    safetensors_index_done(&index);
    snprintf(file, sizeof(file), "%s/optimizer-00001-of-00001.safetensors", path);
    assert_int_equal(safetensors_open(file, &index, &error), 0);
    assert_int_equal(index.count, 2 * SAMPLE_SHAPES);
    safetensors_index_done(&index);
    sample_remove(folder);
}

/* Hugging Face's index covers every parameter, none of the optimizer, and the total. */
static void test_index_covers_the_model_only(void **state)
{
    (void)state;
    char folder[64], path[1024], file[2048];
    struct error error = {0};
    struct bytes content = {0};
    sample_folder(folder);
    sample_write(folder, 4, 3);
    checkpoint_path(folder, 4, path);
    snprintf(file, sizeof(file), "%s/model.safetensors.index.json", path);
    assert_int_equal(file_read(file, 1 << 20, &content, &error), 0);
    json_t *tree = NULL;
    assert_int_equal(json_parse((char *)content.data, content.size_bytes, file, &tree, &error), 0);
    const json_t *map = json_object_get(tree, "weight_map");
    assert_int_equal(json_object_size(map), SAMPLE_SHAPES);
    assert_string_equal(json_string_value(json_object_get(map, "unit.1.weight")),
                        "model-00002-of-00003.safetensors");
    uint64_t total = 0;
    assert_int_equal(
        json_get_u64(json_object_get(tree, "metadata"), "total_size", SIZE_MAX, &total, &error), 0);
    assert_int_equal(total, 4 * (2048 + 33 + 1024 + 35 + 1 + 0 + 4500));
    json_decref(tree);
    bytes_done(&content);
    sample_remove(folder);
}

/* 40 MiB through an arena of 16; after the release the source is scribbled over. */
static void test_a_share_larger_than_the_arena(void **state)
{
    (void)state;
    enum { COUNT = 10 << 20 };
    const char *why;
    const struct io *io = io_probe(&why);
    char folder[64], path[1024], sha256[65];
    struct error error = {0};
    struct manifest manifest = {0};
    sample_folder(folder);
    float *values = malloc(COUNT * sizeof(float)), *expected = malloc(COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++)
        values[i] = expected[i] = sample_value(1, 0, i);
    struct checkpoint_tensor tensors[2] = {
        {.name = "big", .rank = 2, .shape = {COUNT - 7, 1}, .data = values, .count = COUNT - 7},
        {.name = "rest",
         .order = 1,
         .rank = 1,
         .shape = {7},
         .data = values + COUNT - 7,
         .count = 7}};
    struct checkpoint_share share = {
        .job = "sample", .step = 3, .world = 1, .tensors = tensors, .tensor_count = 2};
    snprintf(share.folder, sizeof(share.folder), "%s", folder);
    struct checkpoint_writer *writer = sample_writer(io, 0);
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    checkpoint_writer_release_wait(writer);
    memset(values, 0xff, COUNT * sizeof(float));
    memset(tensors, 0xff, sizeof(tensors)); /* the descriptions were copied */
    assert_int_equal(checkpoint_writer_wait(writer, FOREVER, &manifest, &error), 1);
    assert_int_equal(manifest.files[0].chunk_count, 11);
    assert_int_equal(manifest_seal(&manifest, 2, &error), 0);
    json_t *config = json_object();
    assert_int_equal(folder_commit(io, folder, &manifest, config, path, sha256, &error), 0);
    json_decref(config);

    struct checkpoint_reader *reader;
    assert_int_equal(checkpoint_open(path, &reader, &error), 0);
    assert_int_equal(checkpoint_verify(reader, NULL, NULL, &error), 0);
    assert_int_equal(checkpoint_read(reader, "big", MANIFEST_PARAMETER, values, COUNT - 7, &error),
                     0);
    assert_memory_equal(values, expected, (COUNT - 7) * sizeof(float));
    assert_int_equal(checkpoint_read(reader, "rest", MANIFEST_PARAMETER, values, 7, &error), 0);
    assert_memory_equal(values, expected + COUNT - 7, 7 * sizeof(float));
    checkpoint_close(reader);
    checkpoint_writer_stop(writer);
    manifest_done(&manifest);
    free(values);
    free(expected);
    sample_remove(folder);
}

static void test_begin_is_busy_until_polled(void **state)
{
    (void)state;
    char folder[64];
    struct error error = {0};
    struct manifest part;
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    sample_folder(folder);
    sample_init(&sample, 1);
    const struct io *io = fault_table(io_threads_table());
    struct checkpoint_writer *writer = sample_writer(io, 0);
    struct checkpoint_share share = sample_share(&sample, folder, 1, 0, 1, tensors);
    assert_int_equal(checkpoint_writer_poll(writer, &part, &error), 0);
    assert_int_equal(checkpoint_writer_wait(writer, 0, &part, &error), 0);
    assert_int_equal(checkpoint_writer_release_wait(writer), 0);
    fault_gate(true);
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    assert_int_equal(checkpoint_writer_begin(writer, &share), -EBUSY);
    assert_int_equal(checkpoint_writer_poll(writer, &part, &error), 0);
    assert_int_equal(checkpoint_writer_wait(writer, 1, &part, &error), -ETIMEDOUT);
    fault_gate(false);
    checkpoint_writer_release_wait(writer);
    int status;
    while ((status = checkpoint_writer_poll(writer, &part, &error)) == 0)
        usleep(100);
    assert_int_equal(status, 1);
    assert_int_equal(part.file_count, 2);
    assert_int_equal(part.tensor_count, SAMPLE_TENSORS);
    manifest_done(&part);
    assert_int_equal(checkpoint_writer_begin(writer, &share),
                     0); /* the same share again: replaced */
    assert_int_equal(checkpoint_writer_wait(writer, FOREVER, &part, &error), 1);
    manifest_done(&part);
    checkpoint_writer_stop(writer);
    sample_done(&sample);
    sample_remove(folder);
}

static void test_stopping_abandons_the_share(void **state)
{
    (void)state;
    char folder[64];
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    sample_folder(folder);
    sample_init(&sample, 1);
    struct checkpoint_writer *writer = sample_writer(io_threads_table(), 0);
    struct checkpoint_share share = sample_share(&sample, folder, 1, 0, 1, tensors);
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    checkpoint_writer_stop(writer); /* early or late, but never stuck and never leaking */
    checkpoint_writer_stop(NULL);
    uint64_t *steps;
    size_t count;
    struct error error = {0};
    assert_int_equal(checkpoint_list(folder, &steps, &count, &error), 0);
    assert_int_equal(count, 0);
    free(steps);
    sample_done(&sample);
    sample_remove(folder);
}

static void test_begin_refuses_what_is_malformed(void **state)
{
    (void)state;
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    sample_init(&sample, 1);
    struct checkpoint_writer *writer = sample_writer(io_threads_table(), 0);
    struct checkpoint_share good = sample_share(&sample, "/nowhere", 1, 0, 1, tensors), bad = good;
    bad.rank = 1;
    assert_int_equal(checkpoint_writer_begin(writer, &bad), -EINVAL);
    bad = good;
    memset(bad.folder, 'x', CHECKPOINT_FOLDER_MAX + 1);
    assert_int_equal(checkpoint_writer_begin(writer, &bad), -ENAMETOOLONG);
    bad = good;
    bad.job[0] = '/';
    assert_int_equal(checkpoint_writer_begin(writer, &bad), -EINVAL);
    tensors[0].count++;
    assert_int_equal(checkpoint_writer_begin(writer, &good), -EINVAL);
    tensors[0].count--;
    tensors[0].shape[0] = SIZE_MAX;
    assert_int_equal(checkpoint_writer_begin(writer, &good), -EINVAL);
    tensors[0].shape[0] = 64;
    memcpy(tensors[3].name, tensors[0].name, sizeof(tensors[0].name));
    assert_int_equal(checkpoint_writer_begin(writer, &good), -EINVAL);
    checkpoint_writer_stop(writer);

    struct error error = {0};
    struct checkpoint_writer_options options = {.io = io_threads_table(), .arena_bytes = 1 << 20};
    assert_int_equal(checkpoint_writer_start(&options, &writer, &error), -EINVAL);
    options = (struct checkpoint_writer_options){
        .io = io_threads_table(), .arena_bytes = CHECKPOINT_ARENA_MIN, .block_bytes = 12288};
    assert_int_equal(checkpoint_writer_start(&options, &writer, &error), -EINVAL);
    sample_done(&sample);
}

/* A stage that owns nothing of the kind writes no file of the kind. */
static void test_an_empty_share_has_no_files(void **state)
{
    (void)state;
    char folder[64];
    struct error error = {0};
    struct manifest part;
    sample_folder(folder);
    struct checkpoint_writer *writer = sample_writer(io_threads_table(), 0);
    struct checkpoint_share share = {.job = "sample", .step = 1, .world = 1};
    snprintf(share.folder, sizeof(share.folder), "%s/deep/er", folder);
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    assert_int_equal(checkpoint_writer_wait(writer, FOREVER, &part, &error), 1);
    assert_int_equal(part.file_count, 0);
    assert_string_equal(part.job, "sample");
    manifest_done(&part);
    checkpoint_writer_stop(writer);
    sample_remove(folder);
}

static void test_commit_looks_before_it_leaps(void **state)
{
    (void)state;
    char folder[64], path[1024], sha256[65], file[FOLDER_FILE_SIZE];
    const struct io *io = io_threads_table();
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    sample_folder(folder);
    sample_init(&sample, 1);
    json_t *config = json_object();
    struct checkpoint_writer *writer = sample_writer(io, 0);
    struct checkpoint_share share = sample_share(&sample, folder, 1, 0, 1, tensors);
    static const int expected[] = {-EINVAL, -ENOENT, -EBADMSG, 0, -EEXIST};
    for (unsigned i = 0; i < ARRAY_COUNT(expected); i++) {
        struct manifest part;
        struct error error = {0};
        assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
        assert_int_equal(checkpoint_writer_wait(writer, FOREVER, &part, &error), 1);
        checkpoint_part_path(folder, 1, 1, path);
        folder_file_path(path, part.files[1].name, file);
        if (i > 0)
            assert_int_equal(manifest_seal(&part, SAMPLE_TENSORS, &error), 0);
        if (expected[i] == -ENOENT)
            assert_int_equal(unlink(file), 0);
        if (expected[i] == -EBADMSG)
            assert_int_equal(truncate(file, 4096), 0);
        assert_int_equal(folder_commit(io, folder, &part, config, path, sha256, &error),
                         expected[i]);
        manifest_done(&part);
    }
    assert_written(folder, 1);
    json_decref(config);
    checkpoint_writer_stop(writer);
    sample_done(&sample);
    sample_remove(folder);
}

static void make_folder(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/file");
    close(open(path, O_CREAT | O_WRONLY, 0644));
}

static bool there(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void test_retention_keeps_the_newest_that_load(void **state)
{
    (void)state;
    char folder[64], path[1024], file[2048];
    struct error error = {0};
    sample_folder(folder);
    assert_int_equal(checkpoint_retain(folder, 2, 30, 0, &error), 0);
    for (uint64_t step = 10; step <= 40; step += 10)
        sample_write(folder, step, 1);
    make_folder(folder, "step-0000000020.g1.part");
    make_folder(folder, "step-0000000030.g9.part");
    make_folder(folder, "step-0000000050.g1.part"); /* being written */
    make_folder(folder, "step-0000000005.gone");
    make_folder(folder, "step-0000000020.gone");
    make_folder(folder, "notes");
    checkpoint_path(folder, 40, path);
    snprintf(file, sizeof(file), "%s/manifest.json", path);
    assert_int_equal(truncate(file, 100), 0); /* the newest is broken: it counts for nothing */

    uint64_t *steps;
    size_t count;
    assert_int_equal(checkpoint_list(folder, &steps, &count, &error), 0);
    assert_int_equal(count, 3);
    assert_int_equal(steps[0], 30);
    assert_int_equal(steps[2], 10);
    free(steps);

    assert_int_equal(checkpoint_retain(folder, 2, 30, 0, &error), 0);
    assert_false(there(folder, "step-0000000010"));
    assert_written(folder, 20);
    assert_written(folder, 30);
    assert_true(there(folder, "step-0000000040"));
    assert_false(there(folder, "step-0000000020.g1.part"));
    assert_false(there(folder, "step-0000000030.g9.part"));
    assert_true(there(folder, "step-0000000050.g1.part"));
    assert_false(there(folder, "step-0000000005.gone"));
    assert_false(there(folder, "step-0000000020.gone"));
    assert_true(there(folder, "notes"));
    assert_int_equal(checkpoint_abandon(folder, 50, 2, &error), 0);
    assert_true(there(folder, "step-0000000050.g1.part"));
    assert_int_equal(checkpoint_abandon(folder, 50, 1, &error), 0);
    assert_false(there(folder, "step-0000000050.g1.part"));
    assert_int_equal(checkpoint_retain(folder, 0, 30, 0, &error), 0);
    assert_false(there(folder, "step-0000000020"));
    assert_written(folder, 30);
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_backends_write_the_same_checkpoint),
        cmocka_unit_test(test_data_is_aligned_and_length_is_exact),
        cmocka_unit_test(test_index_covers_the_model_only),
        cmocka_unit_test(test_a_share_larger_than_the_arena),
        cmocka_unit_test(test_begin_is_busy_until_polled),
        cmocka_unit_test(test_stopping_abandons_the_share),
        cmocka_unit_test(test_begin_refuses_what_is_malformed),
        cmocka_unit_test(test_an_empty_share_has_no_files),
        cmocka_unit_test(test_commit_looks_before_it_leaps),
        cmocka_unit_test(test_retention_keeps_the_newest_that_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
