/* Run an etcd of one member for a benchmark, with its own folder and ports; read its processor time
 * and counters. */
#pragma once

#include <sys/types.h>

#include "bench/lib/scratch.h"
#include "membership/transport/poll_loop.h"

struct etcd_process {
    pid_t pid;
    struct scratch scratch; /* its data and its log */
    char url[64];
};

/* Counters since the start of the member. */
struct etcd_counters {
    double proposals;   /* entries of its log: writes, leases granted and revoked */
    double sent_bytes;  /* to clients */
    double requests;    /* from clients, on streams too */
    double keep_alives; /* part of requests: lease keep-alives */
    double questions;   /* part of requests: progress requests on watches */
};

/** etcd_process_start() - start etcd, which may not serve yet; end the benchmark if etcd is not
 * installed */
void etcd_process_start(struct etcd_process *ret_etcd);
/** etcd_process_stop() - kill etcd and remove its folder */
void etcd_process_stop(struct etcd_process *etcd);
struct etcd_counters etcd_process_counters(const struct etcd_process *etcd, struct poll_loop *loop);

/** process_memory() - return the resident bytes of a running process, current ("VmRSS") or peak
 * ("VmHWM"), see proc(5); 0: no such process */
double process_memory(pid_t pid, const char *name);
/** process_cpu() - return the processor seconds of a running process, all threads; 0: no such
 * process */
double process_cpu(pid_t pid);
