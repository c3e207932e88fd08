/* Tests of the bound of files of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/line_rotation.h"

static char folder[64], path[96], older[112];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-rotation-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/lines", folder);
    snprintf(older, sizeof(older), "%s" LINE_ROTATION_SUFFIX, path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(older);
    return rmdir(folder);
}

static void write_text(const char *where, const char *text)
{
    struct error error = {0};

    assert_int_equal(file_replace(where, text, strlen(text), 0644, &error), 0);
}

static void expect_text(const char *where, const char *text)
{
    struct bytes content = {0};
    struct error error = {0};

    assert_int_equal(file_read(where, 1 << 20, &content, &error), 0);
    assert_string_equal((const char *)content.data, text);
    bytes_done(&content);
}

static void test_newest_whole_lines_are_kept(void **state)
{
    struct error error = {0};
    (void)state;
    write_text(path, "one\ntwo\nthree\n");
    assert_int_equal(lines_rotate(path, 10, &error), 0); /* begins within "two" */
    expect_text(path, "three\n");
    expect_text(older, "one\ntwo\nthree\n");

    /* Each time the older lines give way. */
    write_text(path, "three\nfour\n");
    assert_int_equal(lines_rotate(path, 100, &error), 0);
    expect_text(path, "three\nfour\n");
    expect_text(older, "three\nfour\n");
}

static void test_lines_that_are_cut_off_stay_behind(void **state)
{
    struct error error = {0};
    (void)state;
    write_text(path, "one\ntwo\nthr");
    assert_int_equal(lines_rotate(path, 8, &error), 0);
    expect_text(path, "two\n");
    write_text(path, "a line that is longer than what is kept\n");
    assert_int_equal(lines_rotate(path, 8, &error), 0);
    expect_text(path, "");
    write_text(path, "no line at all");
    assert_int_equal(lines_rotate(path, 8, &error), 0);
    expect_text(path, "");
    expect_text(older, "no line at all");
    assert_int_equal(lines_rotate(path, 8, &error), 0);
    expect_text(path, "");
}

static void test_failed_rotation_changes_nothing(void **state)
{
    struct error error = {0};
    (void)state;
    assert_int_equal(lines_rotate(path, 8, &error), -ENOENT);
    assert_non_null(strstr(error.text, path));
    write_text(path, "one\n");
    assert_int_equal(mkdir(older, 0755), 0);
    assert_int_not_equal(lines_rotate(path, 8, &error), 0);
    expect_text(path, "one\n");
    assert_int_equal(rmdir(older), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_newest_whole_lines_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_that_are_cut_off_stay_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_rotation_changes_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
