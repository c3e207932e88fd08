/* Tests of records of samples in a file that workers of a node share: a reader only ever gets the
 * record that was written for that sample, in that file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/cache/output_file.h"

#define COUNT 5
#define SIZE  200

static char folder[64], path[128];
static const struct output_file_shape shape = {{7, 9}, COUNT, SIZE};

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-outputs-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    return 0;
}

static struct output_file *open_file(const struct output_file_shape *of)
{
    struct output_file *file;
    struct error error = {0};
    if (output_file_open(path, of, &file, &error))
        fail_msg("%s", error.text);
    return file;
}

static off_t place(uint64_t index)
{
    return (off_t)output_file_record(&shape, index).offset;
}

static void fill(uint8_t content[SIZE], uint64_t index)
{
    for (unsigned i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i * 31 + index * 7);
}

static void write_record(const struct output_file *file, uint64_t index)
{
    uint8_t content[SIZE];
    fill(content, index);
    assert_int_equal(output_file_write(file, index, content), 0);
}

static void assert_record(const struct output_file *file, uint64_t index)
{
    uint8_t content[SIZE], want[SIZE];
    fill(want, index);
    assert_int_equal(output_file_read(file, index, content), 0);
    assert_memory_equal(content, want, SIZE);
}

static void test_records_are_holes_until_they_are_written(void **state)
{
    uint8_t content[SIZE];
    struct output_file *file = open_file(&shape);
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++)
        assert_int_equal(output_file_read(file, i, content), -ENOENT);
    write_record(file, 3);
    write_record(file, 0);
    write_record(file, 3); /* again, by another worker */
    assert_record(file, 0);
    assert_record(file, 3);
    assert_int_equal(output_file_read(file, 4, content), -ENOENT);
    output_file_expect(file, 3);
    output_file_close(file);
}

static void test_workers_share_a_file_and_find_it_again(void **state)
{
    struct output_file *one = open_file(&shape), *other = open_file(&shape);
    (void)state;
    write_record(one, 2);
    assert_record(other, 2);
    output_file_close(one);
    output_file_close(other);
    one = open_file(&shape);
    assert_record(one, 2);
    output_file_close(one);
}

static void test_a_file_of_another_shape_is_emptied(void **state)
{
    static const struct output_file_shape others[] = {{{7, 8}, COUNT, SIZE},
                                                      {{6, 9}, COUNT, SIZE},
                                                      {{7, 9}, COUNT + 1, SIZE},
                                                      {{7, 9}, COUNT, SIZE - 1}};
    uint8_t content[SIZE];
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(others); i++) {
        struct output_file *file = open_file(&shape);
        write_record(file, 1);
        output_file_close(file);
        file = open_file(&others[i]);
        assert_int_equal(output_file_read(file, 1, content), -ENOENT);
        output_file_close(file);
    }
}

static void flip(uint64_t bit)
{
    uint8_t byte;
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(descriptor, &byte, 1, (off_t)(bit / 8)), 1);
}

static void test_no_flipped_bit_is_read(void **state)
{
    uint64_t first_bit = (uint64_t)place(1) * 8;
    uint8_t content[SIZE];
    struct output_file *file = open_file(&shape);
    (void)state;
    write_record(file, 0);
    write_record(file, 1);
    for (uint64_t bit = 0; bit < (64 + SIZE) * 8; bit++) {
        flip(first_bit + bit);
        int status = output_file_read(file, 1, content);
        if (status != -EBADMSG && !(bit == 0 && status == -ENOENT))
            fail_msg("bit %u: %d", (unsigned)bit, status);
        flip(first_bit + bit);
    }
    assert_record(file, 1);
    assert_record(file, 0);
    output_file_close(file);
}

/* A torn write, and a record at another one's place. */
static void test_no_part_and_no_other_record_is_read(void **state)
{
    uint8_t whole[64 + SIZE], zero[64 + SIZE] = {0}, content[SIZE];
    struct output_file *file = open_file(&shape);
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CLOEXEC);
    (void)state;
    write_record(file, 1);
    assert_int_equal(pread(descriptor, whole, sizeof(whole), place(1)), sizeof(whole));
    assert_int_equal(pwrite(descriptor, whole, sizeof(whole), place(2)), sizeof(whole));
    assert_int_equal(output_file_read(file, 2, content), -EBADMSG);
    for (size_t done = 8; done < sizeof(whole) - 8; done += 16) {
        assert_int_equal(pwrite(descriptor, zero, sizeof(zero), place(1)), sizeof(zero));
        assert_int_equal(pwrite(descriptor, whole, done, place(1)), done);
        assert_int_equal(output_file_read(file, 1, content), -EBADMSG);
    }
    write_record(file, 1);
    assert_record(file, 1);
    output_file_close(file);
}

/* As another node reads it, and writes it into its own file. */
static void test_a_record_is_put_into_another_file(void **state)
{
    const struct output_file_part part = output_file_record(&shape, 1);
    const struct output_file_part marks = output_file_marks(&shape);
    struct output_file_shape other_shape = shape;
    uint8_t record[64 + SIZE], found[COUNT], want[COUNT] = {0, 1, 0, 0, 1}, content[SIZE];
    struct output_file *file = open_file(&shape);
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CLOEXEC);
    (void)state;
    assert_int_equal(part.size_bytes, sizeof(record));
    assert_int_equal(marks.size_bytes, COUNT);
    assert_false(output_file_has(file, 1));
    write_record(file, 1);
    write_record(file, 4);
    assert_true(output_file_has(file, 1) && !output_file_has(file, 2));
    assert_int_equal(pread(descriptor, found, COUNT, (off_t)marks.offset), COUNT);
    assert_memory_equal(found, want, COUNT);
    assert_int_equal(pread(descriptor, record, sizeof(record), (off_t)part.offset), sizeof(record));
    output_file_close(file);
    unlink(path);
    file = open_file(&shape);
    assert_int_equal(output_file_put(file, 2, record), -EBADMSG); /* of another sample */
    record[100] ^= 1;
    assert_int_equal(output_file_put(file, 1, record), -EBADMSG);
    record[100] ^= 1;
    assert_false(output_file_has(file, 1));
    assert_int_equal(output_file_put(file, 1, record), 0);
    assert_record(file, 1);
    assert_true(output_file_has(file, 1));
    output_file_close(file);
    other_shape.key.low++;
    file = open_file(&other_shape);
    assert_int_equal(output_file_put(file, 1, record), -EBADMSG); /* of other weights */
    memset(record, 0, sizeof(record));
    assert_int_equal(output_file_put(file, 1, record), -EBADMSG); /* a hole */
    assert_int_equal(output_file_read(file, 1, content), -ENOENT);
    output_file_close(file);
}

static void test_a_file_that_is_cut_or_condemned_fails(void **state)
{
    uint8_t content[SIZE];
    struct output_file *file = open_file(&shape), *other = open_file(&shape);
    (void)state;
    write_record(file, 4);
    assert_int_equal(truncate(path, 4096 + 100), 0);
    assert_int_equal(output_file_read(file, 4, content), -EIO);
    output_file_close(file);
    file = open_file(&shape); /* not whole: made anew */
    assert_int_equal(output_file_read(file, 4, content), -ENOENT);
    write_record(file, 4);
    output_file_condemn(file);
    assert_int_equal(output_file_read(other, 4, content), -EIO);
    output_file_close(file);
    output_file_close(other);
}

static void test_what_cannot_be_opened_names_the_file(void **state)
{
    struct output_file *file;
    struct error error = {0};
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(output_file_open(path, &shape, &file, &error), -EISDIR);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_records_are_holes_until_they_are_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_workers_share_a_file_and_find_it_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_of_another_shape_is_emptied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_flipped_bit_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_part_and_no_other_record_is_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_record_is_put_into_another_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_cut_or_condemned_fails, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_opened_names_the_file, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
