/* Tests of files that the user names: existing files are replaced, written into, or followed. */
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

#include "base/bytes.h"
#include "base/file.h"
#include "ctl/view/output.h"

static char folder[] = "/tmp/firn-output-XXXXXX";

static const char *at(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int write_text(const char *path, const char *text)
{
    struct error error = {0};
    return output_file(path, text, strlen(text), &error);
}

static void expect_text(const char *path, const char *text)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    assert_int_equal(file_read(path, 1024, &content, NULL), 0);
    assert_string_equal((const char *)content.data, text);
}

static void test_a_file_is_replaced(void **state)
{
    (void)state;
    assert_int_equal(write_text(at("file"), "first"), 0);
    assert_int_equal(write_text(at("file"), "second"), 0);
    expect_text(at("file"), "second");
    assert_int_equal(write_text(at("absent/file"), "x"), -ENOENT);
}

static void test_a_link_stays_one(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(write_text(at("target"), "first"), 0);
    assert_int_equal(symlink("target", at("link")), 0);
    assert_int_equal(write_text(at("link"), "second"), 0);
    assert_int_equal(lstat(at("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    expect_text(at("target"), "second");
}

static void test_a_pipe_is_written_into(void **state)
{
    char text[16] = "";
    struct stat status;

    (void)state;
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    int reader = open(at("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(write_text(at("pipe"), "through"), 0);
    assert_int_equal(read(reader, text, sizeof(text) - 1), 7);
    assert_string_equal(text, "through");
    close(reader);
    assert_int_equal(stat(at("pipe"), &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
}

static void test_a_full_device_and_a_folder_are_errors(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(stat("/dev/full", &status), 0);
    if (S_ISCHR(status.st_mode))
        assert_int_equal(write_text("/dev/full", "x"), -ENOSPC);
    assert_int_equal(write_text(folder, "x"), -EISDIR);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_replaced),
        cmocka_unit_test(test_a_link_stays_one),
        cmocka_unit_test(test_a_pipe_is_written_into),
        cmocka_unit_test(test_a_full_device_and_a_folder_are_errors),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
