/* The meaning of etcd's refusals. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "membership/etcd/etcd_failure.h"

static void test_failures(void **state)
{
    static const struct {
        const char *text;
        enum grpc_code code;
        enum etcd_error_class error_class;
        int status;
    } cases[] = {
        {"etcdserver: no leader", GRPC_UNAVAILABLE, ETCD_ERROR_ELSEWHERE, -EHOSTUNREACH},
        {"etcdserver: request timed out", GRPC_UNAVAILABLE, ETCD_ERROR_UNKNOWN, -EHOSTUNREACH},
        {"context deadline exceeded", GRPC_DEADLINE_EXCEEDED, ETCD_ERROR_UNKNOWN, -ETIMEDOUT},
        {"etcdserver: invalid auth token", GRPC_UNAUTHENTICATED, ETCD_ERROR_TOKEN, -EACCES},
        {"etcdserver: user name is empty", GRPC_INVALID_ARGUMENT, ETCD_ERROR_TOKEN, -EACCES},
        {"etcdserver: authentication failed, invalid user ID or password", GRPC_INVALID_ARGUMENT,
         ETCD_ERROR_FINAL, -EACCES},
        {"etcdserver: requested lease not found", GRPC_NOT_FOUND, ETCD_ERROR_FINAL, -ENOENT},
        {"etcdserver: mvcc: database space exceeded", GRPC_RESOURCE_EXHAUSTED, ETCD_ERROR_FINAL,
         -ENOSPC},
        {"a b\x1b[31m", GRPC_INVALID_ARGUMENT, ETCD_ERROR_FINAL, -EINVAL},
        {"it answers with HTTP 404", GRPC_UNIMPLEMENTED, ETCD_ERROR_FINAL, -EPROTO},
        {"it answers with HTTP 502", GRPC_UNAVAILABLE, ETCD_ERROR_UNKNOWN, -EHOSTUNREACH},
        {"", (enum grpc_code)99, ETCD_ERROR_FINAL, -EPROTO},
        {NULL, GRPC_UNKNOWN, ETCD_ERROR_UNKNOWN, -EHOSTUNREACH},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct etcd_failure failure;
        etcd_failure_judge(cases[i].code, cases[i].text, &failure);
        if (failure.error_class != cases[i].error_class || failure.status != cases[i].status)
            fail_msg("case %zu: class %d, status %d", i, (int)failure.error_class, failure.status);
        assert_null(strchr(failure.text, '\x1b'));
        assert_true(failure.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
