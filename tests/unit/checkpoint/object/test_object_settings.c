/* The operator's settings file: accepted and refused settings; no secret gets into a message. */
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

#include "checkpoint/object/object_settings.h"

#define WHOLE                                                                                      \
    "endpoint = https://s3.example.com:9000/\nregion = eu-1\naccess_key = AK:x\n"                  \
    "secret_key = hush/hush+hush=\n"

static char path[] = "/tmp/firn-object-XXXXXX";

static int load(const char *text, unsigned mode, struct object_settings *settings,
                struct error *error)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
    *error = (struct error){0};
    return object_settings_load(path, settings, error);
}

static void assert_refused(const char *text, const char *words)
{
    struct object_settings settings;
    struct error error;
    assert_int_equal(load(text, 0600, &settings, &error), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_null(strstr(error.text, "hush"));
}

static void test_whole_file(void **state)
{
    (void)state;
    struct object_settings settings;
    struct error error;
    assert_int_equal(load("# a comment\n\n" WHOLE
                          " prefix=/team/a/ \nbytes_per_second = 1000000\r\n"
                          "ca_file = /etc/ca.pem\nsession_token = t",
                          0640, &settings, &error),
                     0);
    assert_string_equal(settings.endpoint, "https://s3.example.com:9000");
    assert_string_equal(settings.region, "eu-1");
    assert_string_equal(settings.access_key, "AK:x");
    assert_string_equal(settings.secret_key, "hush/hush+hush=");
    assert_string_equal(settings.session_token, "t");
    assert_string_equal(settings.prefix, "team/a");
    assert_string_equal(settings.ca_file, "/etc/ca.pem");
    assert_int_equal(settings.bytes_per_second, 1000000);
    object_settings_forget(&settings);
    assert_string_equal(settings.secret_key, "");
}

static void test_refusals(void **state)
{
    (void)state;
    assert_refused("region = x\naccess_key = a\nsecret_key = hush\n", "endpoint is missing");
    assert_refused("endpoint = https://a\nregion = x\naccess_key = a\n", "secret_key is missing");
    assert_refused(WHOLE "secretkey = hush\n", ":5: no such key; there are endpoint");
    assert_refused(WHOLE "hush\n", ":5: not \"key = value\"");
    assert_refused(WHOLE "secret_key = hush hush\n", ":5: secret_key: at most 255");
    assert_refused(WHOLE "bytes_per_second = 5M\n", ":5: bytes_per_second");
    assert_refused(WHOLE "bytes_per_second = 99999999999999999999\n", "bytes_per_second");
    assert_refused(WHOLE "endpoint = ftp://a\n", "is not https://host[:port]");
    assert_refused(WHOLE "endpoint = https://a/path\n", "is not https://host[:port]");
    assert_refused(WHOLE "endpoint = https://hush@a\n", "is not https://host[:port]");
    assert_refused(WHOLE "prefix = a//b\n", "prefix");
    assert_refused(WHOLE "prefix = ../b\n", "prefix");
    assert_refused(WHOLE "region = a:b\n", "region");
}

static void test_readable_by_everybody(void **state)
{
    (void)state;
    struct object_settings settings;
    struct error error;
    assert_int_equal(load(WHOLE, 0604, &settings, &error), -EPERM);
    assert_non_null(strstr(error.text, "chmod o-rwx"));
    assert_int_equal(object_settings_load("/nonexistent/object.conf", &settings, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nonexistent/object.conf"));
}

static int set_up(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_file),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_readable_by_everybody),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
