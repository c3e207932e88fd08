/*
 * What it means when etcd refuses: whether asking again, elsewhere, or with a new token helps, and
 * whether what was asked for may have been done all the same.
 */
#pragma once

#include "membership/etcd/grpc.h"

enum etcd_verdict {
    ETCD_VERDICT_FINAL,     /* asking again or elsewhere changes nothing */
    ETCD_VERDICT_ELSEWHERE, /* this member cannot serve now, and has done nothing */
    ETCD_VERDICT_UNKNOWN,   /* it may have been done, or may still be */
    ETCD_VERDICT_TOKEN,     /* authenticate (again), then ask again */
};

struct etcd_failure {
    enum etcd_verdict verdict;
    int status;     /* negative errno */
    char text[256]; /* etcd's own, printable */
};

/** etcd_failure_judge() - @text: NULL or etcd's words, which may be anything */
void etcd_failure_judge(enum grpc_code code, const char *text, struct etcd_failure *ret_failure);
