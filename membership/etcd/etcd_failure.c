#include "membership/etcd/etcd_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Match etcd's message where the code is too coarse (api/v3rpc/rpctypes lists all messages). */
static const struct {
    const char *text;
    enum etcd_error_class error_class;
    int status;
} known[] = {
    {"etcdserver: no leader", ETCD_ERROR_ELSEWHERE, -EHOSTUNREACH},
    {"raft proposal dropped", ETCD_ERROR_ELSEWHERE, -EHOSTUNREACH},
    {"etcdserver: not capable", ETCD_ERROR_ELSEWHERE, -EHOSTUNREACH},
    {"etcdserver: invalid auth token", ETCD_ERROR_TOKEN, -EACCES},
    {"etcdserver: user name is empty", ETCD_ERROR_TOKEN, -EACCES},
    {"etcdserver: revision of auth store is old", ETCD_ERROR_TOKEN, -EACCES},
    {"etcdserver: authentication failed", ETCD_ERROR_FINAL, -EACCES},
    {"etcdserver: permission denied", ETCD_ERROR_FINAL, -EACCES},
    {"etcdserver: authentication is not enabled", ETCD_ERROR_FINAL, -EOPNOTSUPP},
    {"etcdserver: request is too large", ETCD_ERROR_FINAL, -EFBIG},
    {"etcdserver: mvcc: database space exceeded", ETCD_ERROR_FINAL, -ENOSPC},
};

static struct etcd_failure judge_code(enum grpc_code code)
{
    switch (code) {
    case GRPC_INVALID_ARGUMENT:
    case GRPC_FAILED_PRECONDITION:
        return (struct etcd_failure){.error_class = ETCD_ERROR_FINAL, .status = -EINVAL};
    case GRPC_NOT_FOUND:
        return (struct etcd_failure){.error_class = ETCD_ERROR_FINAL, .status = -ENOENT};
    case GRPC_PERMISSION_DENIED:
        return (struct etcd_failure){.error_class = ETCD_ERROR_FINAL, .status = -EACCES};
    case GRPC_RESOURCE_EXHAUSTED:
        return (struct etcd_failure){.error_class = ETCD_ERROR_FINAL, .status = -EAGAIN};
    case GRPC_UNAUTHENTICATED:
        return (struct etcd_failure){.error_class = ETCD_ERROR_TOKEN, .status = -EACCES};
    case GRPC_DEADLINE_EXCEEDED:
        return (struct etcd_failure){.error_class = ETCD_ERROR_UNKNOWN, .status = -ETIMEDOUT};
    case GRPC_CANCELED:
    case GRPC_UNKNOWN:
    case GRPC_INTERNAL:
    case GRPC_UNAVAILABLE:
        return (struct etcd_failure){.error_class = ETCD_ERROR_UNKNOWN, .status = -EHOSTUNREACH};
    default: /* not from etcd, but from a proxy or an unrelated server */
        return (struct etcd_failure){.error_class = ETCD_ERROR_FINAL, .status = -EPROTO};
    }
}

/* Printable ASCII only: the text goes to terminals and logs. */
static void copy_printable(const char *text, char *ret_copy, size_t size)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < size; i++)
        ret_copy[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    ret_copy[i] = '\0';
}

static void add_remedy(struct etcd_failure *failure)
{
    size_t length = strlen(failure->text);

    if (failure->status == -ENOSPC)
        snprintf(failure->text + length, sizeof(failure->text) - length,
                 "; compact and defragment it, then: etcdctl alarm disarm");
}

void etcd_failure_judge(enum grpc_code code, const char *text, struct etcd_failure *ret_failure)
{
    *ret_failure = judge_code(code);
    copy_printable(text && *text != '\0' ? text : "an answer without a reason", ret_failure->text,
                   sizeof(ret_failure->text));
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strncmp(ret_failure->text, known[i].text, strlen(known[i].text)) == 0) {
            ret_failure->error_class = known[i].error_class;
            ret_failure->status = known[i].status;
        }
    }
    add_remedy(ret_failure);
}
