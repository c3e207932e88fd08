/* Tests of the names that a request may use for this node: its own, and the configured ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/config/http_host.h"

static const struct http_names names = {
    .node = "node1", .host = "Machine7", .configured = "firn.example.org, .cluster.example.org"};

static void test_hosts(void **state)
{
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {NULL, 0},
        {"127.0.0.1:7580", 0},
        {"10.0.0.1", 0},
        {"[::1]:7580", 0},
        {"[fd00::1]", 0},
        {"localhost:7580", 0},
        {"LOCALHOST", 0},
        {"node1:7580", 0},
        {"node1.", 0},
        {"machine7:7580", 0},
        {"firn.example.org:80", 0},
        {"FIRN.example.org", 0},
        {"a.cluster.example.org", 0},
        {"cluster.example.org", -EXDEV},
        {"evil.example.org", -EXDEV},
        {"node1.evil.example.org", -EXDEV},
        {"xfirn.example.org", -EXDEV},
        {"127.0.0.1.evil.example.org", -EXDEV},
        {"localhost.evil.example.org", -EXDEV},
        {"1.2.3", -EXDEV},
        {"", -EINVAL},
        {":7580", -EINVAL},
        {"node1:x", -EINVAL},
        {"node1:80:90", -EINVAL},
        {"node1 evil", -EINVAL},
        {"[evil]", -EINVAL},
        {"[::1", -EINVAL},
        {"<script>", -EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        int status = http_host_check(&names, cases[i].header, &error);
        if (status != cases[i].status)
            fail_msg("%s: %d instead of %d", cases[i].header, status, cases[i].status);
    }
}

static void test_refusal_says_what_to_configure(void **state)
{
    struct error error = {0};

    (void)state;
    assert_int_equal(http_host_check(&names, "dns.example.org:7580", &error), -EXDEV);
    assert_non_null(strstr(error.text, "\"dns.example.org\""));
    assert_non_null(strstr(error.text, "http_names"));
}

static void test_a_name_of_any_length(void **state)
{
    static char header[4096];
    struct error error = {0};

    (void)state;
    memset(header, 'a', sizeof(header) - 1);
    assert_int_equal(http_host_check(&names, header, &error), -EINVAL);
    header[HTTP_HOST_SIZE - 1] = '\0';
    assert_int_equal(http_host_check(&names, header, &error), -EXDEV);
}

static void test_configured_names(void **state)
{
    struct error error = {0};

    (void)state;
    assert_int_equal(http_names_check("", &error), 0);
    assert_int_equal(http_names_check("a.example.org, .b.example.org,", &error), 0);
    assert_int_equal(http_names_check("a.example.org,http://b", &error), -EINVAL);
    assert_non_null(strstr(error.text, "\"http://b\""));
    assert_int_equal(http_names_check(".", &error), -EINVAL); /* all names on this machine */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_refusal_says_what_to_configure),
        cmocka_unit_test(test_a_name_of_any_length),
        cmocka_unit_test(test_configured_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
