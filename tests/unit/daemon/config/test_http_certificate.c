/* A certificate that other nodes would refuse is refused before firnd starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config/http_certificate.h"

static char folder[] = "/tmp/firn-certificate-XXXXXX";

static int make_files(void **state)
{
    char command[1024];

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(command, sizeof(command),
             "cd %s && exec >certify.log 2>&1 && echo nonsense >text && "
             "for name in one two; do openssl ecparam -name prime256v1 -genkey -noout "
             "-out $name.key && openssl req -x509 -key $name.key -days 2 -subj /CN=$name "
             "-addext subjectAltName=IP:10.0.0.1,IP:fd00::1,DNS:10.0.0.2 -out $name.pem || exit 1; "
             "done; openssl ec -in one.key -aes128 -passout pass:secret -out locked.key",
             folder);
    return access("/usr/bin/openssl", X_OK) == 0 ? system(command) : 0;
}

static int remove_files(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void path_of(const char *name, char ret_path[128])
{
    snprintf(ret_path, 128, name[0] == '/' ? "%s%s" : "%s/%s", name[0] == '/' ? "" : folder, name);
}

static void test_only_what_others_will_take(void **state)
{
    static const struct {
        const char *certificate, *key, *address;
        const char *words; /* NULL: good */
    } cases[] = {
        {"one.pem", "one.key", "10.0.0.1:7580", NULL},
        {"one.pem", "one.key", "[fd00::1]:7580", NULL},
        {"one.pem", "one.key", "10.0.0.3:7580", "wants subjectAltName=IP:10.0.0.3"},
        {"one.pem", "one.key", "10.0.0.2:7580", "wants subjectAltName=IP:10.0.0.2"}, /* a name */
        {"one.pem", "one.key", "[fd00::2]:7580", "wants subjectAltName=IP:fd00::2"},
        {"one.pem", "two.key", "10.0.0.1:7580", "not the key of the first certificate"},
        {"text", "one.key", "10.0.0.1:7580", "text holds no certificate in PEM"},
        {"one.key", "one.key", "10.0.0.1:7580", "one.key holds no certificate in PEM"},
        {"one.pem", "one.pem", "10.0.0.1:7580", "one.pem holds no private key"},
        {"one.pem", "locked.key", "10.0.0.1:7580", "without a passphrase"},
        {"/nowhere/a.pem", "one.key", "10.0.0.1:7580", "http_certificate: /nowhere/a.pem: No such"},
        {"one.pem", "/nowhere/a.key", "10.0.0.1:7580", "http_key: /nowhere/a.key: No such"},
    };

    (void)state;
    if (access("/usr/bin/openssl", X_OK) != 0)
        skip();
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char certificate[128], key[128];
        struct error error = {0};
        path_of(cases[i].certificate, certificate);
        path_of(cases[i].key, key);
        int status = http_certificate_check(certificate, key, cases[i].address, &error);
        assert_int_equal(status, cases[i].words ? -EINVAL : 0);
        if (cases[i].words && !strstr(error.text, cases[i].words))
            fail_msg("\"%s\" does not say \"%s\"", error.text, cases[i].words);
    }
}

static void test_authorities_are_certificates(void **state)
{
    char path[128];
    struct error error = {0};

    (void)state;
    if (access("/usr/bin/openssl", X_OK) != 0)
        skip();
    path_of("one.pem", path);
    assert_int_equal(http_authorities_check(path, &error), 0);
    path_of("text", path);
    assert_int_equal(http_authorities_check(path, &error), -EINVAL);
    assert_non_null(strstr(error.text, "http_authorities: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_others_will_take),
        cmocka_unit_test(test_authorities_are_certificates),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
