/*
 * etcd v3 over gRPC on the caller's loop: all calls to a member share one connection
 * (membership/transport/http2.h).
 *
 * Several endpoints: requests go to the current one and fail over in turn; a watch that breaks
 * resumes at the revision after the last seen, and re-reads everything after a compaction. TLS with
 * client certificates; user and password (token renewed when it expires). Every request has a
 * deadline, which grows while there are no answers (membership/etcd/answer_timeout.h). With a
 * single member the deadline is always the longest, 32 times request_timeout_ns, and only silence
 * of that member ends a request sooner.
 */
#pragma once

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

struct etcd_options {
    const char *endpoints;       /* as membership/etcd/endpoints.h reads them */
    const char *user, *password; /* NULL: none */
    const char *ca_file, *certificate_file, *key_file; /* NULL: none */
    uint64_t request_timeout_ns;                       /* initially, of one attempt; 0: 2 s */
};

struct etcd;
int etcd_new(const struct loop *loop, const struct etcd_options *options, struct etcd **ret_etcd,
             struct error *error) CHECK_RESULT;
void etcd_free(struct etcd *etcd); /* requests in flight do not call back */
const struct kv *etcd_kv(struct etcd *etcd);
