/* The client against an etcd that speaks TLS and wants client certificates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/membership/store.h"

static struct etcd_fixture fixture;
static char endpoint[ETCD_FIXTURE_TEXT_SIZE], ca[ETCD_FIXTURE_TEXT_SIZE];
static char certificate[ETCD_FIXTURE_TEXT_SIZE], key[ETCD_FIXTURE_TEXT_SIZE];

#define REQUIRE_TLS()                                                                              \
    do {                                                                                           \
        REQUIRE_ETCD();                                                                            \
        if (access("/usr/bin/openssl", X_OK) != 0) {                                               \
            print_message("skipped: openssl is not installed, so there are no certificates\n");    \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static int start(void **state)
{
    (void)state;
    if (!etcd_fixture_available() || access("/usr/bin/openssl", X_OK) != 0)
        return 0;
    if (!etcd_fixture_start_tls(&fixture))
        return -1;
    etcd_fixture_endpoints(&fixture, endpoint);
    etcd_fixture_file(&fixture, "ca.pem", ca);
    etcd_fixture_file(&fixture, "client.pem", certificate);
    etcd_fixture_file(&fixture, "client.key", key);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    etcd_fixture_stop(&fixture);
    return 0;
}

static void test_right_certificates(void **state)
{
    (void)state;
    REQUIRE_TLS();
    struct store store;
    struct watched watched;
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoint,
                                                      .ca_file = ca,
                                                      .certificate_file = certificate,
                                                      .key_file = key,
                                                      .request_timeout_ns = NS_PER_SECOND});
    store_watch(&store, "/a/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    assert_int_equal(store_put(&store, "/a/x", "1", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/a/x", "1"));
    uint64_t until_ns = clock_monotonic_ns() + 5 * NS_PER_SECOND / 2; /* two questions */
    STORE_UNTIL(&store, clock_monotonic_ns() >= until_ns);
    assert_int_equal(watched.losses, 0);
    store_close(&store);
}

static void test_unknown_authority(void **state)
{
    (void)state;
    REQUIRE_TLS();
    struct store store;
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoint,
                                                      .certificate_file = certificate,
                                                      .key_file = key});
    struct outcome outcome = store_range(&store, "/a", false);
    assert_int_equal(outcome.status, -EPROTO);
    assert_non_null(strstr(outcome.text, "of no authority that we trust"));
    store_close(&store);
}

static void test_no_client_certificate(void **state)
{
    (void)state;
    REQUIRE_TLS();
    struct store store;
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoint, .ca_file = ca});
    struct outcome outcome = store_range(&store, "/a", false);
    assert_int_equal(outcome.status, -EPROTO);
    assert_non_null(strstr(outcome.text, "wants one"));
    store_close(&store);
}

/* A connection with these credentials is refused; @words: the expected message. */
static void check_refused(const char *url, const char *authority, const char *certificate_name,
                          const char *key_name, int status, const char *words)
{
    struct store store;
    char shown[ETCD_FIXTURE_TEXT_SIZE], secret[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_file(&fixture, certificate_name, shown);
    etcd_fixture_file(&fixture, key_name, secret);
    store_open_options(&store, &(struct etcd_options){.endpoints = url,
                                                      .ca_file = authority,
                                                      .certificate_file = shown,
                                                      .key_file = secret});
    struct outcome outcome = store_range(&store, "/a", false);
    assert_int_equal(outcome.status, status);
    if (!strstr(outcome.text, words))
        fail_msg("\"%s\" does not say \"%s\"", outcome.text, words);
    store_close(&store);
}

static void test_wrong_files(void **state)
{
    (void)state;
    REQUIRE_TLS();
    check_refused(endpoint, key, "client.pem", "client.key", -EPROTO, "holds no certificate");
    check_refused(endpoint, ca, "client.pem", "server.key", -EPROTO, "does the key belong to it?");
}

static void test_another_name(void **state)
{
    (void)state;
    REQUIRE_TLS();
    char named[ETCD_FIXTURE_TEXT_SIZE];
    snprintf(named, sizeof(named), "https://localhost:%u", fixture.members[0].client_port);
    check_refused(named, ca, "client.pem", "client.key", -EPROTO,
                  "its certificate is not for this name");
}

static void test_the_other_protocol(void **state)
{
    (void)state;
    REQUIRE_TLS();
    char plain[ETCD_FIXTURE_TEXT_SIZE], encrypted[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_url(fixture.members[0].client_port, plain);
    check_refused(plain, ca, "client.pem", "client.key", -ECONNRESET,
                  "as one that speaks TLS (https://) does");
    snprintf(encrypted, sizeof(encrypted), "https://127.0.0.1:%u", fixture.members[0].health_port);
    check_refused(encrypted, ca, "client.pem", "client.key", -EPROTO,
                  "is it http:// instead of https://?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_certificates),    cmocka_unit_test(test_unknown_authority),
        cmocka_unit_test(test_no_client_certificate), cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_another_name),          cmocka_unit_test(test_the_other_protocol),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
