/*
 * Frozen units: two checkpoints write their own files, later checkpoints link to them on any
 * layout, so that neighbours share no file. A unit is written again whenever the earlier file
 * differs from memory or a link is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_before.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

#define FROZEN 5

struct workbench {
    char folder[64];
    const struct io *io;
    struct checkpoint_writer *writer;
};

static int set_up(void **state)
{
    static struct workbench bench;
    sample_folder(bench.folder);
    fault_disarm();
    bench.io = fault_table(io_threads_table());
    bench.writer = sample_writer(bench.io, 65536);
    sample_frozen = FROZEN;
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct workbench *bench = *state;
    checkpoint_writer_stop(bench->writer);
    sample_remove(bench->folder);
    sample_frozen = 0;
    return 0;
}

static void save(const struct workbench *bench, uint64_t step, unsigned world)
{
    struct error error = {0};
    if (sample_save(bench->writer, bench->io, bench->folder, step, world, &error) != 0)
        fail_msg("%s", error.text);
    if (sample_check(bench->folder, step, &error) != 0)
        fail_msg("%s", error.text);
}

static void frozen_path(const struct workbench *bench, uint64_t step, unsigned unit,
                        char ret_path[FOLDER_FILE_SIZE])
{
    char path[FOLDER_PATH_SIZE], name[64];
    checkpoint_path(bench->folder, step, path);
    snprintf(name, sizeof(name), "model-frozen-%05u.safetensors", unit);
    folder_file_path(path, name, ret_path);
}

static bool same_file(const struct workbench *bench, unsigned unit, uint64_t one, uint64_t other)
{
    char path[FOLDER_FILE_SIZE];
    struct stat a, b;
    frozen_path(bench, one, unit, path);
    assert_int_equal(stat(path, &a), 0);
    frozen_path(bench, other, unit, path);
    assert_int_equal(stat(path, &b), 0);
    return a.st_ino == b.st_ino;
}

static struct hash128 digest(const char *folder, uint64_t step)
{
    char path[1024];
    struct error error = {0};
    struct manifest manifest;
    checkpoint_path(folder, step, path);
    if (manifest_load(path, NULL, &manifest, &error) != 0)
        fail_msg("%s", error.text);
    struct hash128 result = manifest.state_digest;
    manifest_done(&manifest);
    return result;
}

static void test_written_twice_and_linked_on_any_layout(void **state)
{
    const struct workbench *bench = *state;
    static const unsigned worlds[] = {1, 3, 2, 1, 3, 2};
    for (uint64_t step = 1; step <= 6; step++)
        save(bench, step, worlds[step - 1]);
    for (unsigned unit = 0; unit < FROZEN; unit++) {
        for (uint64_t step = 3; step <= 6; step++)
            assert_true(same_file(bench, unit, step - 2, step));
        assert_false(same_file(bench, unit, 1, 2)); /* damage to either file spares the other */
    }
}

static void test_nothing_is_shared_with_a_damaged_one(void **state)
{
    const struct workbench *bench = *state;
    struct error error = {0};
    char path[FOLDER_PATH_SIZE];
    save(bench, 1, 1);
    save(bench, 2, 1);
    checkpoint_path(bench->folder, 1, path);
    assert_int_equal(checkpoint_mark_damaged(path, &error), 0);
    save(bench, 3, 1);
    save(bench, 4, 1);
    assert_false(same_file(bench, 0, 1, 3));
    assert_true(same_file(bench, 0, 2, 4));
}

/* The damage of step 1 is found after step 3 has linked its files and before step 3 is read. */
static void test_nothing_is_shared_with_a_twin_of_a_damaged_one(void **state)
{
    const struct workbench *bench = *state;
    struct error error = {0};
    char path[FOLDER_PATH_SIZE];
    for (uint64_t step = 1; step <= 4; step++)
        save(bench, step, 1);
    assert_true(same_file(bench, 0, 1, 3));
    checkpoint_path(bench->folder, 1, path);
    assert_int_equal(checkpoint_mark_damaged(path, &error), 0);
    save(bench, 5, 1);
    save(bench, 6, 1);
    assert_false(same_file(bench, 0, 3, 5));
    assert_true(same_file(bench, 0, 4, 6));
}

/* The damage of step 1 is found, and step 1 has had its day when the next checkpoint is written. */
static void test_damage_outlives_the_checkpoint_in_which_it_was_found(void **state)
{
    const struct workbench *bench = *state;
    struct error error = {0};
    char path[FOLDER_FILE_SIZE];
    struct stat file;
    for (uint64_t step = 1; step <= 4; step++)
        save(bench, step, 1);
    frozen_path(bench, 1, 0, path);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(folder_remove_step(bench->folder, 1, &error), 0);
    folder_mark_sharing(bench->folder, strrchr(path, '/') + 1, file.st_dev, file.st_ino);
    for (uint64_t step = 2; step <= 4; step++) {
        checkpoint_path(bench->folder, step, path);
        assert_int_equal(checkpoint_damaged(path), step == 3);
    }
    save(bench, 5, 1);
    save(bench, 6, 1);
    assert_false(same_file(bench, 0, 3, 5));
    assert_true(same_file(bench, 0, 4, 6));
}

/* Step 4 shares with step 2, which step 5 would choose as well while step 4 is not committed. */
static void test_nothing_is_shared_while_the_one_before_is_written(void **state)
{
    const struct workbench *bench = *state;
    char part[FOLDER_PATH_SIZE];
    save(bench, 2, 1);
    save(bench, 3, 1);
    checkpoint_part_path(bench->folder, 4, 1, part);
    assert_int_equal(mkdir(part, 0755), 0);
    save(bench, 5, 1);
    assert_false(same_file(bench, 0, 2, 5));
    assert_int_equal(rmdir(part), 0);
    save(bench, 6, 1);
    assert_true(same_file(bench, 0, 3, 6));
}

static void test_the_digest_does_not_see_links(void **state)
{
    const struct workbench *bench = *state;
    char alone[64];
    for (uint64_t step = 1; step <= 3; step++)
        save(bench, step, 2);
    sample_folder(alone);
    sample_write(alone, 3, 3);
    assert_true(hash128_equal(digest(bench->folder, 3), digest(alone, 3)));
    sample_remove(alone);
}

static void test_retention_loses_nothing(void **state)
{
    const struct workbench *bench = *state;
    struct error error = {0};
    for (uint64_t step = 1; step <= 3; step++)
        save(bench, step, 1);
    assert_int_equal(checkpoint_retain(bench->folder, 1, 3, 0, &error), 0);
    assert_int_not_equal(sample_check(bench->folder, 1, NULL), 0);
    if (sample_check(bench->folder, 3, &error) != 0)
        fail_msg("%s", error.text);
}

static void test_a_copied_folder_is_whole(void **state)
{
    const struct workbench *bench = *state;
    char copy[64], command[256];
    struct error error = {0};
    for (uint64_t step = 1; step <= 3; step++)
        save(bench, step, 1);
    sample_folder(copy);
    snprintf(command, sizeof(command), "cp -r %s/step-0000000003 %s/ && rm -r %s/step-*",
             bench->folder, copy, bench->folder);
    assert_int_equal(system(command), 0);
    if (sample_check(copy, 3, &error) != 0)
        fail_msg("%s", error.text);
    sample_remove(copy);
}

/* The index that Hugging Face's loaders follow names the frozen files. */
static void test_the_index_names_the_frozen_files(void **state)
{
    const struct workbench *bench = *state;
    char path[1024];
    struct error error = {0};
    save(bench, 1, 2);
    snprintf(path, sizeof(path), "%s/step-0000000001/model.safetensors.index.json", bench->folder);
    json_t *tree = json_load_file(path, 0, NULL);
    const json_t *map = json_object_get(tree, "weight_map");
    assert_int_equal(json_object_size(map), SAMPLE_SHAPES);
    assert_string_equal(json_string_value(json_object_get(map, "unit.2.weight")),
                        "model-frozen-00002.safetensors");
    assert_string_equal(json_string_value(json_object_get(map, "unit.6.weight")),
                        "model-00001-of-00002.safetensors");
    json_decref(tree);
    error_clear(&error);
}

/*
 * More layers freeze between two checkpoints: existing files are linked, the new ones are written.
 */
static void test_the_boundary_moves(void **state)
{
    const struct workbench *bench = *state;
    sample_frozen = 2;
    save(bench, 1, 1);
    sample_frozen = FROZEN;
    for (uint64_t step = 2; step <= 4; step++)
        save(bench, step, 1);
    assert_true(same_file(bench, 1, 1, 3));
    assert_true(same_file(bench, FROZEN - 1, 2, 4));
}

/* Foreign parameters under the same names, as of a job of the old name with another seed. */
static void test_other_values_are_written(void **state)
{
    const struct workbench *bench = *state;
    struct sample sample;
    struct error error = {0};
    char path[1024];
    struct checkpoint_reader *reader;
    float scalar;
    save(bench, 1, 1);
    save(bench, 2, 1);
    sample_init(&sample, 3);
    assert_int_equal(sample.tensors[4].count, 1);
    sample.values[4][0] += 1.0f;
    if (sample_save_values(bench->writer, bench->io, bench->folder, 3, 1, &sample, &error) != 0)
        fail_msg("%s", error.text);
    assert_false(same_file(bench, 4, 1, 3));
    assert_true(same_file(bench, 3, 1, 3));
    checkpoint_path(bench->folder, 3, path);
    assert_int_equal(checkpoint_open(path, &reader, &error), 0);
    assert_int_equal(
        checkpoint_read(reader, "unit.4.weight", MANIFEST_PARAMETER, &scalar, 1, &error), 0);
    assert_true(scalar == sample.values[4][0]);
    checkpoint_close(reader);
    sample_done(&sample);
    assert_int_equal(sample_check(bench->folder, 1, &error), 0);
}

static void test_a_cut_or_missing_file_is_written_again(void **state)
{
    const struct workbench *bench = *state;
    char path[FOLDER_FILE_SIZE];
    save(bench, 1, 1);
    frozen_path(bench, 1, 0, path);
    assert_int_equal(truncate(path, 4096), 0);
    frozen_path(bench, 1, 1, path);
    assert_int_equal(unlink(path), 0);
    save(bench, 2, 1);
    save(bench, 3, 1);
    assert_false(same_file(bench, 0, 1, 3));
    assert_true(same_file(bench, 2, 1, 3));
}

static int refuse_link(struct io_context *context, const char *from, const char *to)
{
    (void)context;
    (void)from;
    (void)to;
    return -EXDEV;
}

static void test_refused_links_are_copies(void **state)
{
    struct workbench *bench = *state;
    struct io io = *bench->io;
    struct workbench without_links = *bench;
    io.link = refuse_link;
    without_links.io = &io;
    without_links.writer = sample_writer(&io, 0);
    save(bench, 1, 1);
    save(bench, 2, 1);
    save(&without_links, 3, 1);
    checkpoint_writer_stop(without_links.writer);
    for (unsigned unit = 0; unit < FROZEN; unit++)
        assert_false(same_file(bench, unit, 1, 3));
}

/* A damaged manifest is skipped; the manifest before it counts. */
static void test_only_those_that_load_count(void **state)
{
    const struct workbench *bench = *state;
    char path[1024];
    for (uint64_t step = 1; step <= 3; step++)
        save(bench, step, 1);
    snprintf(path, sizeof(path), "%s/step-0000000003/manifest.json", bench->folder);
    assert_int_equal(truncate(path, 10), 0);
    save(bench, 4, 1);
    assert_true(same_file(bench, 0, 1, 4));
}

static void test_moments_of_frozen_tensors_are_refused(void **state)
{
    const struct workbench *bench = *state;
    struct sample sample;
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    sample_init(&sample, 1);
    struct checkpoint_share share = sample_share(&sample, bench->folder, 1, 0, 1, tensors);
    tensors[0].role = MANIFEST_FIRST_MOMENT;
    assert_int_equal(checkpoint_writer_begin(bench->writer, &share), -EINVAL);
    tensors[0].role = MANIFEST_PARAMETER;
    tensors[0].unit = CHECKPOINT_UNIT_MAX + 1;
    assert_int_equal(checkpoint_writer_begin(bench->writer, &share), -EINVAL);
    sample_done(&sample);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_written_twice_and_linked_on_any_layout),
        TEST(test_nothing_is_shared_with_a_damaged_one),
        TEST(test_nothing_is_shared_with_a_twin_of_a_damaged_one),
        TEST(test_damage_outlives_the_checkpoint_in_which_it_was_found),
        TEST(test_nothing_is_shared_while_the_one_before_is_written),
        TEST(test_the_digest_does_not_see_links),
        TEST(test_retention_loses_nothing),
        TEST(test_a_copied_folder_is_whole),
        TEST(test_the_index_names_the_frozen_files),
        TEST(test_the_boundary_moves),
        TEST(test_other_values_are_written),
        TEST(test_a_cut_or_missing_file_is_written_again),
        TEST(test_refused_links_are_copies),
        TEST(test_only_those_that_load_count),
        TEST(test_moments_of_frozen_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
