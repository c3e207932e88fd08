/*
 * Tests of loading many tensors at once: right to the bit on every layout, with every backend and
 * block size, after any failure on the way; almost no byte is read twice; damage is refused with
 * the message of the careful reader.
 */
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
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/read/load.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

#define UNITS   7
#define TENSORS (UNITS * 3 * 3)
#define WRITERS 3
#define STEP    7

/* The shapes of a small GPT-2: a large table, and of each unit a matrix, a bias and a norm. */
static struct checkpoint_tensor tensors[TENSORS];
static unsigned tensor_count;
static char folder[64], path[1024];

static void add_tensor(unsigned unit, const char *kind, size_t rows, size_t columns)
{
    for (unsigned role = 0; role < 3; role++) {
        struct checkpoint_tensor *tensor = &tensors[tensor_count];
        float *values = malloc(rows * columns * sizeof(float));
        snprintf(tensor->name, sizeof(tensor->name), "h.%u.%s", unit, kind);
        tensor->role = (enum manifest_role)role;
        tensor->order = tensor_count;
        tensor->unit = unit;
        tensor->rank = 2;
        tensor->shape[0] = rows;
        tensor->shape[1] = columns;
        tensor->count = rows * columns;
        for (size_t i = 0; i < tensor->count; i++)
            values[i] = sample_value(STEP, tensor_count, i);
        tensor->data = values;
        tensor_count++;
    }
}

static void make_tensors(void)
{
    tensor_count = 0;
    for (unsigned unit = 0; unit < UNITS; unit++) {
        add_tensor(unit, "weight", unit == 0 ? 32771 : 192, unit == 0 ? 64 : 384);
        add_tensor(unit, "bias", 1, 768);
        add_tensor(unit, "norm", 1, 192);
    }
}

static void merge_share(struct checkpoint_writer *writer, unsigned rank, struct manifest *manifest)
{
    struct checkpoint_tensor mine[TENSORS];
    struct manifest part = {0};
    struct error error = {0};
    struct checkpoint_share share = {.job = "sample",
                                     .step = STEP,
                                     .generation = 1,
                                     .rank = rank,
                                     .world = WRITERS,
                                     .tensors = mine};
    snprintf(share.folder, sizeof(share.folder), "%s", folder);
    for (unsigned i = 0; i < tensor_count; i++) {
        if (tensors[i].unit * WRITERS / UNITS == rank)
            mine[share.tensor_count++] = tensors[i];
    }
    assert_int_equal(checkpoint_writer_begin(writer, &share), 0);
    assert_int_equal(checkpoint_writer_wait(writer, UINT64_MAX / 2, &part, &error), 1);
    assert_int_equal(manifest_merge(manifest, &part, &error), 0);
    manifest_done(&part);
}

/* Run on a disk, which does not refuse O_DIRECT. */
static int set_up(void **state)
{
    const char *why;
    struct manifest manifest = {0};
    struct error error = {0};
    struct checkpoint_writer *writer = sample_writer(io_probe(&why), 0);
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-load-XXXXXX");
    assert_non_null(mkdtemp(folder));
    make_tensors();
    for (unsigned rank = 0; rank < WRITERS; rank++)
        merge_share(writer, rank, &manifest);
    assert_int_equal(sample_commit(io_probe(&why), folder, tensor_count, &manifest, &error), 0);
    manifest_done(&manifest);
    checkpoint_writer_stop(writer);
    checkpoint_path(folder, STEP, path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < tensor_count; i++)
        free((void *)(uintptr_t)tensors[i].data);
    sample_remove(folder);
    return 0;
}

/* Wishes for units [first, end) into fresh memory full of something else. */
static unsigned wish_units(struct checkpoint_wish wishes[TENSORS], unsigned first, unsigned end)
{
    unsigned count = 0;
    for (unsigned i = tensor_count; i-- > 0;) { /* any order will do */
        const struct checkpoint_tensor *tensor = &tensors[i];
        if (tensor->unit < first || tensor->unit >= end)
            continue;
        float *data = malloc(tensor->count * sizeof(float));
        memset(data, 0xa5, tensor->count * sizeof(float));
        wishes[count++] = (struct checkpoint_wish){tensor->name, tensor->role, data, tensor->count};
    }
    return count;
}

static void free_wishes(const struct checkpoint_wish *wishes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        free(wishes[i].data);
}

static const struct checkpoint_tensor *find(const struct checkpoint_wish *wish)
{
    for (unsigned i = 0; i < tensor_count; i++) {
        if (tensors[i].role == wish->role && strcmp(tensors[i].name, wish->name) == 0)
            return &tensors[i];
    }
    return NULL;
}

static void assert_granted(const struct checkpoint_wish *wishes, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_memory_equal(wishes[i].data, find(&wishes[i])->data,
                            wishes[i].count * sizeof(float));
}

static struct checkpoint_reader *open_checkpoint(void)
{
    struct checkpoint_reader *reader;
    struct error error = {0};
    if (checkpoint_open(path, &reader, &error) != 0)
        fail_msg("%s", error.text);
    return reader;
}

static struct checkpoint_load_result load(const struct checkpoint_load_options *options,
                                          unsigned first, unsigned end)
{
    struct checkpoint_wish wishes[TENSORS];
    struct checkpoint_load_result result;
    struct error error = {0};
    struct checkpoint_reader *reader = open_checkpoint();
    unsigned count = wish_units(wishes, first, end);
    if (checkpoint_load(reader, options, wishes, count, &result, &error) != 0)
        fail_msg("%s", error.text);
    assert_granted(wishes, count);
    free_wishes(wishes, count);
    checkpoint_close(reader);
    return result;
}

static void test_every_backend_block_and_depth_gives_the_same(void **state)
{
    static const size_t blocks[] = {0, 4096, 65536, MANIFEST_CHUNK_BYTES};
    const char *why;
    const struct io *tables[] = {io_probe(&why), io_threads_table()};
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(blocks) * 2; i++) {
        struct checkpoint_load_options options = {.io = tables[i % 2],
                                                  .thread_count = 1 + i % 3,
                                                  .depth = i % 4,
                                                  .block_bytes = blocks[i / 2]};
        struct checkpoint_load_result result = load(&options, 0, UNITS);
        assert_int_equal(result.careful, 0);
    }
}

/* Bound the cost of a restore: the requested bytes are counted. */
static void test_another_layout_reads_next_to_nothing_twice(void **state)
{
    const char *why;
    struct checkpoint_load_options options = {.io = io_probe(&why)};
    (void)state;
    for (unsigned stages = 1; stages <= UNITS; stages++) {
        uint64_t wanted = 0, read = 0;
        for (unsigned stage = 0; stage < stages; stage++) {
            struct checkpoint_load_result result =
                load(&options, stage * UNITS / stages, (stage + 1) * UNITS / stages);
            assert_int_equal(result.careful, 0);
            wanted += result.wanted_bytes;
            read += result.read_bytes;
        }
        assert_true(read >= wanted);
        if ((double)read > 1.05 * (double)wanted)
            fail_msg("%u stages: %lu bytes read of %lu", stages, (unsigned long)read,
                     (unsigned long)wanted);
    }
}

static void test_a_read_that_fails_is_done_again_with_care(void **state)
{
    (void)state;
    bool hit = true;
    unsigned careful = 0;
    fault.inner = io_threads_table();
    struct checkpoint_load_options options = {.io = fault_table(io_threads_table()),
                                              .thread_count = 1,
                                              .block_bytes = MANIFEST_CHUNK_BYTES};
    for (uint64_t k = 0; hit; k++) {
        fault_arm(k, k % 2 == 0 ? -EIO : -ENOMEM, false, k % 3 == 0);
        struct checkpoint_load_result result = load(&options, 0, UNITS);
        hit = fault.count > k;
        assert_int_equal(result.careful > 0, hit);
        careful += result.careful;
        fault_disarm();
    }
    assert_true(careful > 0);
}

static void test_what_is_not_there_is_said(void **state)
{
    const char *why;
    struct checkpoint_load_options options = {.io = io_probe(&why)};
    struct checkpoint_reader *reader = open_checkpoint();
    struct error error = {0};
    float value[2];
    struct checkpoint_wish wish = {"h.99.weight", MANIFEST_PARAMETER, value, 2};
    (void)state;
    assert_int_equal(checkpoint_load(reader, &options, &wish, 1, NULL, &error), -ENOENT);
    wish.name = "h.1.bias";
    assert_int_equal(checkpoint_load(reader, &options, &wish, 1, NULL, &error), -EINVAL);
    assert_int_equal(checkpoint_load(reader, &options, NULL, 0, NULL, &error), 0);
    checkpoint_close(reader);
}

static void damage(const char *file, uint64_t offset)
{
    char name[1300];
    uint8_t byte;
    snprintf(name, sizeof(name), "%s/%s", path, file);
    AUTO_CLOSE int descriptor = open(name, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)offset), 1);
    byte ^= 4;
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)offset), 1);
}

static void assert_refused(const char *file, const char *chunk)
{
    const char *why;
    struct checkpoint_load_options options = {.io = io_probe(&why)};
    struct checkpoint_wish wishes[TENSORS];
    struct error error = {0};
    struct checkpoint_reader *reader = open_checkpoint();
    unsigned count = wish_units(wishes, 0, UNITS);
    assert_int_equal(checkpoint_load(reader, &options, wishes, count, NULL, &error), -EBADMSG);
    if (!strstr(error.text, file) || !strstr(error.text, chunk))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", error.text, file, chunk);
    free_wishes(wishes, count);
    checkpoint_close(reader);
}

static void test_damage_is_refused_by_file_and_chunk(void **state)
{
    static const char model[] = "model-00001-of-00003.safetensors",
                      optimizer[] = "optimizer-00001-of-00003.safetensors";
    struct stat status;
    char name[1300], last[32];
    (void)state;
    damage(model, 5u << 20); /* the middle of the table: its second chunk is whole */
    assert_refused(model, "chunk 1 ");
    damage(model, 5u << 20);
    snprintf(name, sizeof(name), "%s/%s", path, optimizer);
    assert_int_equal(stat(name, &status), 0);
    damage(optimizer, (uint64_t)status.st_size - 1); /* a small tensor at the very end */
    snprintf(last, sizeof(last), "chunk %u ",
             (unsigned)((uint64_t)status.st_size / MANIFEST_CHUNK_BYTES));
    assert_refused(optimizer, last);
    damage(optimizer, (uint64_t)status.st_size - 1);
    struct checkpoint_load_options options = {.io = io_threads_table()};
    load(&options, 0, UNITS);
}

static int load_part(unsigned first, unsigned end, struct error *error)
{
    const struct checkpoint_load_options options = {.io = io_threads_table()};
    struct checkpoint_wish wishes[TENSORS];
    struct checkpoint_reader *reader;
    if (checkpoint_open_to_load(path, &reader, error) != 0)
        fail_msg("%s", error->text);
    unsigned count = wish_units(wishes, first, end);
    int status = checkpoint_load(reader, &options, wishes, count, NULL, error);
    if (status == 0)
        assert_granted(wishes, count);
    free_wishes(wishes, count);
    checkpoint_close(reader);
    return status;
}

/* With N workers that restore from N files, each worker reads only the headers of its own files. */
static void test_only_files_of_wanted_tensors_are_read(void **state)
{
    static const char model[] = "model-00002-of-00003.safetensors";
    struct error error = {0};
    (void)state;
    assert_int_equal(load_part(0, UNITS, &error), 0);
    damage(model, 20); /* in its header */
    assert_int_equal(load_part(0, 3, &error), 0);
    assert_int_equal(load_part(5, UNITS, &error), 0);
    assert_int_equal(load_part(2, 4, &error), -EBADMSG);
    if (!strstr(error.text, model) || !strstr(error.text, "chunk 0 "))
        fail_msg("%s", error.text);
    damage(model, 20);
    assert_int_equal(load_part(0, UNITS, &error), 0);
}

/* Presence and size of all files are checked by every worker. */
static void test_a_file_that_is_missing_or_cut_is_seen_when_opening(void **state)
{
    char name[1300], away[1310];
    struct checkpoint_reader *reader;
    struct error error = {0};
    struct stat status;
    (void)state;
    snprintf(name, sizeof(name), "%s/model-00002-of-00003.safetensors", path);
    snprintf(away, sizeof(away), "%s.away", name);
    assert_int_equal(rename(name, away), 0);
    assert_int_equal(checkpoint_open_to_load(path, &reader, &error), -ENOENT);
    assert_int_equal(rename(away, name), 0);
    assert_int_equal(stat(name, &status), 0);
    assert_int_equal(truncate(name, status.st_size + 1), 0);
    assert_int_equal(checkpoint_open_to_load(path, &reader, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "too long"));
    assert_int_equal(truncate(name, status.st_size), 0);
    assert_int_equal(load_part(0, UNITS, &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_backend_block_and_depth_gives_the_same),
        cmocka_unit_test(test_another_layout_reads_next_to_nothing_twice),
        cmocka_unit_test(test_a_read_that_fails_is_done_again_with_care),
        cmocka_unit_test(test_what_is_not_there_is_said),
        cmocka_unit_test(test_damage_is_refused_by_file_and_chunk),
        cmocka_unit_test(test_only_files_of_wanted_tensors_are_read),
        cmocka_unit_test(test_a_file_that_is_missing_or_cut_is_seen_when_opening),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
