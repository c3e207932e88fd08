/* Addresses of nodes as URLs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/http_url.h"

static void test_an_address_says_whether_it_speaks_tls(void **state)
{
    (void)state;
    assert_string_equal(http_url_scheme("10.0.0.1:7580"), "http://");
    assert_string_equal(http_url_scheme("[fd00::1]:7580"), "http://");
    assert_string_equal(http_url_scheme("https://10.0.0.1:7580"), "");
    assert_string_equal(http_url_scheme("http"), "http://");
    assert_string_equal(http_url_scheme(""), "http://");
}

static void test_authorities_come_from_the_environment(void **state)
{
    (void)state;
    unsetenv("FIRN_AUTHORITIES");
    assert_null(http_url_authorities());
    setenv("FIRN_AUTHORITIES", "", 1);
    assert_null(http_url_authorities());
    setenv("FIRN_AUTHORITIES", "/etc/ca.pem", 1);
    assert_string_equal(http_url_authorities(), "/etc/ca.pem");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_says_whether_it_speaks_tls),
        cmocka_unit_test(test_authorities_come_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
