/* Tests of etcd's endpoints, as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "membership/etcd/endpoints.h"

#define TEN(text) text text text text text text text text text text

static void test_what_is_meant(void **state)
{
    (void)state;
    struct endpoints endpoints;
    struct error error;
    assert_int_equal(
        endpoints_parse(" http://a.example:2379/ ,,https://10.0.0.1:1 http://[fd00::1]:65535,",
                        &endpoints, &error),
        0);
    assert_int_equal(endpoints.count, 3);
    assert_string_equal(endpoints.urls[0], "http://a.example:2379");
    assert_string_equal(endpoints.urls[1], "https://10.0.0.1:1");
    assert_string_equal(endpoints.urls[2], "http://[fd00::1]:65535");
}

static void check_refused(const char *text, const char *words)
{
    struct endpoints endpoints;
    struct error error = {0};
    assert_int_equal(endpoints_parse(text, &endpoints, &error), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, error.text, words);
}

static void test_mistakes(void **state)
{
    (void)state;
    check_refused(NULL, "no etcd endpoint is given; write http://host:2379");
    check_refused("", "no etcd endpoint is given");
    check_refused(" , ,", "no etcd endpoint is given");
    check_refused("nix", "\"nix\" is not an etcd endpoint; write http://host:2379, or https://");
    check_refused("127.0.0.1:2379", "write http://host:2379");
    check_refused("http:/a:1", "write http://host:2379");
    check_refused("ftp://host:1", "not an etcd endpoint");
    check_refused("HTTP://host:1", "not an etcd endpoint");
    check_refused("http://", "not an etcd endpoint");
    check_refused("http://:2379", "not an etcd endpoint");
    check_refused("http://user@host:1", "not an etcd endpoint");
    check_refused("http://host:1/v3", "not an etcd endpoint");
    check_refused("http://host", "\"http://host\" says no port; write http://host:2379");
    check_refused("https://[fd00::1]", "says no port; write https://[fd00::1]:2379");
    check_refused("http://fd00::1:2379", "an IPv6 address stands in brackets");
    check_refused("http://[fd00::1:2379", "says no port");
    check_refused("http://[fd00::1]2379", "\"2379\" is not a port");
    check_refused("http://host:", "\"\" is not a port");
    check_refused("http://host:0", "\"0\" is not a port");
    check_refused("http://host:65536", "\"65536\" is not a port");
    check_refused("http://host:+1", "\"+1\" is not a port");
    check_refused("http://a:1,http://a:2,nix", "\"nix\"");
    check_refused(TEN("http://a:1,"), "more than 8 etcd endpoints");
    check_refused("http://" TEN("abcdefghijklmnopqrstuvwxyz") ":1", "longer than 143 characters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_meant),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
