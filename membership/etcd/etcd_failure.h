/*
 * Classify etcd's errors: whether a retry, another member, or a new token helps, and whether the
 * request may have been carried out.
 */
#pragma once

#include "membership/etcd/grpc.h"

enum etcd_error_class {
    ETCD_ERROR_FINAL,     /* a retry here or elsewhere does not help */
    ETCD_ERROR_ELSEWHERE, /* this member cannot serve now, and has not carried the request out */
    ETCD_ERROR_UNKNOWN,   /* the request may have been carried out, or may still be */
    ETCD_ERROR_TOKEN,     /* authenticate (again), then retry */
};

struct etcd_failure {
    enum etcd_error_class error_class;
    int status;     /* negative errno */
    char text[256]; /* etcd's own, printable */
};

/** etcd_failure_judge() - classify an error. @text: NULL or etcd's message, unchecked */
void etcd_failure_judge(enum grpc_code code, const char *text, struct etcd_failure *ret_failure);
