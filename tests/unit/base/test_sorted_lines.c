/* Tests of bisection over lines of every length, against a linear search; and of truncated ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sorted_lines.h"

static unsigned looked_at;

static int number_of(const char *line, size_t size_bytes, uint64_t *ret_number)
{
    looked_at++;
    *ret_number = strtoull(line, NULL, 10);
    return size_bytes > 0 && line[0] >= '0' && line[0] <= '9' ? 0 : -EINVAL;
}

static FILE *open_lines(void)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    return file;
}

static off_t size_of(FILE *file)
{
    assert_int_equal(fflush(file), 0);
    return lseek(fileno(file), 0, SEEK_END);
}

/* Number 3 n, with as many x behind it as make lines of very unlike lengths. */
static void write_line(FILE *file, unsigned n)
{
    fprintf(file, "%u ", 3 * n);
    for (unsigned i = 0; i < n * n * 31 % 5000; i++)
        fputc('x', file);
    fputc('\n', file);
}

static void test_every_number_is_found(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    FILE *file = open_lines();
    off_t begins[COUNT + 1];
    for (unsigned n = 0; n < COUNT; n++) {
        begins[n] = ftello(file);
        write_line(file, n);
    }
    begins[COUNT] = size_of(file);
    const struct sorted_lines lines = {.descriptor = fileno(file), .number_of = number_of};
    for (uint64_t number = 0; number < 3 * COUNT + 5; number++) {
        off_t found;
        uint64_t first = (number + 2) / 3;
        assert_int_equal(sorted_lines_find(&lines, number, begins[COUNT], &found), 0);
        assert_int_equal(found, begins[first < COUNT ? first : COUNT]);
    }
    fclose(file);
}

static void test_a_long_file_takes_few_looks(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    FILE *file = open_lines();
    for (unsigned n = 0; n < COUNT; n++)
        fprintf(file, "%u\n", n);
    const struct sorted_lines lines = {.descriptor = fileno(file), .number_of = number_of};
    off_t found, size = size_of(file);
    struct sorted_line line;
    looked_at = 0;
    assert_int_equal(sorted_lines_find(&lines, 123456, size, &found), 0);
    assert_true(looked_at < 50);
    assert_int_equal(sorted_lines_at(&lines, found, size, size, &line), 0);
    assert_int_equal(line.number, 123456);
    fclose(file);
}

static void test_what_is_no_line_is_said(void **state)
{
    (void)state;
    FILE *file = open_lines();
    fputs("1\n2\n3", file); /* the last is cut off */
    const struct sorted_lines lines = {.descriptor = fileno(file), .number_of = number_of};
    off_t size = size_of(file), found;
    struct sorted_line line;
    assert_int_equal(sorted_lines_at(&lines, 3, size, size, &line), -EBADMSG);
    assert_int_equal(sorted_lines_at(&lines, 3, size - 1, size - 1, &line), -ENOENT);
    assert_int_equal(sorted_lines_at(&lines, 1, 2, size, &line), -ENOENT); /* begins at 2 */
    assert_int_equal(sorted_lines_find(&lines, 9, size - 1, &found), 0);
    assert_int_equal(found, 4);
    assert_int_equal(sorted_lines_find(&lines, 0, 0, &found), 0);
    assert_int_equal(found, 0);
    fclose(file);
    file = open_lines();
    fputs("1\nnone\n3\n", file);
    const struct sorted_lines damaged = {.descriptor = fileno(file), .number_of = number_of};
    assert_int_equal(sorted_lines_find(&damaged, 3, size_of(file), &found), -EBADMSG);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_is_found),
        cmocka_unit_test(test_a_long_file_takes_few_looks),
        cmocka_unit_test(test_what_is_no_line_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
