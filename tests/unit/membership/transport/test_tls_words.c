/* The messages of libcurl and OpenSSL, and firn's messages made from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "membership/transport/tls_words.h"

static void test_connecting(void **state)
{
    (void)state;
    static const struct {
        CURLcode code;
        const char *words, *text;
    } cases[] = {
        {CURLE_PEER_FAILED_VERIFICATION,
         "SSL certificate problem: unable to get local issuer certificate",
         "its certificate is of no authority that we trust: is the CA file the right one? (SSL certificate "
         "problem: unable to get local issuer certificate)"},
        {CURLE_PEER_FAILED_VERIFICATION, "SSL certificate problem: certificate has expired",
         "its certificate has expired (SSL certificate problem: certificate has expired)"},
        {CURLE_PEER_FAILED_VERIFICATION, "SSL certificate problem: certificate is not yet valid",
         "its certificate is not valid yet: are both clocks right? (SSL certificate problem: "
         "certificate is not yet valid)"},
        {CURLE_PEER_FAILED_VERIFICATION, "no alternative certificate subject name matches",
         "its certificate is not for this name: ask for a name or address that it is for (no "
         "alternative certificate subject name matches)"},
        {CURLE_SSL_CERTPROBLEM, "x",
         "our client certificate cannot be used: does the key belong to it? (x)"},
        {CURLE_SSL_CACERT_BADFILE, "x", "the CA file holds no certificate (x)"},
        {CURLE_SSL_CONNECT_ERROR, "",
         "it does not speak TLS with us: is it http:// instead of https://? ()"},
        {CURLE_COULDNT_CONNECT, "Connection refused", "Connection refused"},
    };
    char text[TLS_WORDS_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_string_equal(tls_words_connect(cases[i].code, cases[i].words, text), cases[i].text);
}

static void test_being_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *text;
    } cases[] = {
        {"tlsv13 alert certificate required", "it wants a client certificate, and none is"},
        {"sslv3 alert bad certificate", "it refuses our client certificate, or wants one"},
        {"tlsv1 alert unknown ca", "it is of no authority that etcd trusts"},
        {"sslv3 alert certificate expired", "it refuses our client certificate, which has expired"},
        {"tlsv1 alert internal error",
         "it rejected the TLS handshake: its log says why (tlsv1 alert internal error)"},
    };
    char text[TLS_WORDS_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_non_null(strstr(tls_words_refused(cases[i].words, text), cases[i].text));
    assert_null(tls_words_refused("Connection reset by peer", text));
    assert_null(tls_words_refused("", text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connecting),
        cmocka_unit_test(test_being_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
