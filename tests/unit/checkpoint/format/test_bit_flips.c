/*
 * Tests of a flipped bit anywhere in a checkpoint, in every file that its manifest lists and in the
 * manifest itself: a scrub and a restore find it, and both name the file. Positions: all bits at
 * both ends of a file, where headers, padding, the last tensors and seals are, and every so many
 * bits in between, at a stride that meets all bits of a byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/read/load.h"
#include "lib/checkpoint/sample.h"

#define STEP   12
#define END    24 /* bytes at each end of a file */
#define STRIDE 4021

static char folder[64], path[FOLDER_PATH_SIZE];

static int set_up(void **state)
{
    (void)state;
    sample_frozen = 3;
    sample_folder(folder);
    sample_write(folder, STEP, 2);
    checkpoint_path(folder, STEP, path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sample_remove(folder);
    sample_frozen = 0;
    return 0;
}

static void flip(const char *file, uint64_t bit)
{
    uint8_t byte;
    int descriptor = open(file, O_RDWR);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
    close(descriptor);
}

static int scrub(struct error *error)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open(path, &reader, error);
    if (status != 0)
        return status;
    status = checkpoint_verify(reader, NULL, NULL, error);
    checkpoint_close(reader);
    return status;
}

/* As a worker restores: all tensors at once, through the threads of a load. */
static int restore(struct error *error)
{
    static float values[SAMPLE_TENSORS][8192];
    const struct checkpoint_load_options options = {.io = io_threads_table()};
    struct checkpoint_wish wishes[SAMPLE_TENSORS];
    struct checkpoint_reader *reader;
    struct sample sample;
    int status = checkpoint_open(path, &reader, error);
    if (status != 0)
        return status;
    sample_init(&sample, STEP);
    for (unsigned i = 0; i < sample.count; i++)
        wishes[i] = (struct checkpoint_wish){sample.tensors[i].name, sample.tensors[i].role,
                                             values[i], sample.tensors[i].count};
    status = checkpoint_load(reader, &options, wishes, sample.count, NULL, error);
    sample_done(&sample);
    checkpoint_close(reader);
    return status;
}

static void expect_found(const char *name, uint64_t bit)
{
    static int (*const ways[])(struct error * error) = {scrub, restore};
    char file[FOLDER_FILE_SIZE];
    folder_file_path(path, name, file);
    flip(file, bit);
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        struct error error = {0};
        int status = ways[i](&error);
        if (status != -EBADMSG || !strstr(error.text, name))
            fail_msg("%s, bit %lu, way %zu: %d \"%s\"", name, (unsigned long)bit, i, status,
                     error.text);
    }
    flip(file, bit);
}

static unsigned flip_file(const char *name)
{
    char file[FOLDER_FILE_SIZE];
    struct stat status;
    unsigned count = 0;
    folder_file_path(path, name, file);
    assert_int_equal(stat(file, &status), 0);
    uint64_t bits = (uint64_t)status.st_size * 8, end = MIN(bits, (uint64_t)END * 8);
    for (uint64_t bit = 0; bit < end; bit += 7, count++)
        expect_found(name, bit);
    for (uint64_t bit = bits - end; bit < bits; bit += 7, count++)
        expect_found(name, bit);
    for (uint64_t bit = end; bit < bits; bit += STRIDE, count++)
        expect_found(name, bit);
    return count;
}

static void test_every_file_and_region(void **state)
{
    struct manifest manifest;
    struct error error = {0};
    unsigned count = 0;
    (void)state;
    assert_int_equal(manifest_load(path, NULL, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 2 + 3 + 2 + 2); /* of frozen units, too */
    for (size_t i = 0; i < manifest.file_count; i++)
        count += flip_file(manifest.files[i].name);
    count += flip_file(MANIFEST_NAME);
    manifest_done(&manifest);
    print_message("[   INFO   ] %u bits\n", count);
    assert_int_equal(scrub(&error), 0);
    assert_int_equal(restore(&error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_file_and_region, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
