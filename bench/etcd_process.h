/* An etcd of one member for a benchmark: its own folder and ports, its processor time and counters.
 */
#pragma once

#include <sys/types.h>

#include "bench/scratch.h"
#include "membership/transport/poll_loop.h"

struct etcd_process {
    pid_t pid;
    struct scratch scratch; /* its data and its log */
    char url[64];
};

/* Since the member started. */
struct etcd_counters {
    double proposals;   /* entries of its log: writes, leases granted and revoked */
    double sent_bytes;  /* to clients */
    double requests;    /* that clients sent, on streams too */
    double keep_alives; /* of those: to keep a lease */
    double questions;   /* of those: on watches, to see whether they live */
};

/** etcd_process_start() - it may not serve yet; ends the benchmark when there is no etcd */
void etcd_process_start(struct etcd_process *ret_etcd);
/** etcd_process_stop() - kills it and removes its folder */
void etcd_process_stop(struct etcd_process *etcd);
struct etcd_counters etcd_process_counters(const struct etcd_process *etcd, struct poll_loop *loop);

/** process_memory() - bytes of a living process in memory now ("VmRSS") or ever ("VmHWM"), see
 * proc(5); 0: there is none */
double process_memory(pid_t pid, const char *name);
/** process_cpu() - processor seconds of a living process, all threads; 0: there is none */
double process_cpu(pid_t pid);
