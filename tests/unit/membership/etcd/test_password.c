/* The password in a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "membership/etcd/password.h"

static char path[] = "/tmp/firn-password-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int descriptor = mkstemp(path);
    if (descriptor >= 0)
        close(descriptor);
    return descriptor < 0 ? -1 : 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void check_read(const char *content, const char *expected)
{
    char password[PASSWORD_SIZE];
    struct error error;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(password_read(path, password, &error), 0);
    assert_string_equal(password, expected);
}

static void test_first_line(void **state)
{
    (void)state;
    check_read("secret", "secret");
    check_read("secret\n", "secret");
    check_read("with spaces \r\nand a second line\n", "with spaces ");
    check_read("\n", "");
    check_read("", "");
}

static void test_files_that_are_none(void **state)
{
    (void)state;
    char password[PASSWORD_SIZE] = "before", large[2 * PASSWORD_SIZE];
    struct error error;
    assert_int_equal(password_read("/nowhere/password", password, &error), -ENOENT);
    assert_string_equal(password, "");
    assert_non_null(strstr(error.text, "/nowhere/password"));
    memset(large, 'x', sizeof(large));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(large, 1, sizeof(large), file);
    assert_int_equal(fclose(file), 0);
    assert_true(password_read(path, password, &error) < 0);
    assert_string_equal(password, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_line),
        cmocka_unit_test(test_files_that_are_none),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
