/*
 * An I/O table that fails on demand. It counts operations; operation number fail_at (and every
 * later operation, if the disk stays dead) returns fail_code. A torn write puts half of its data on
 * disk before it fails. A closed gate holds the writer inside create().
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/io/io.h"

#define FAULT_NEVER UINT64_MAX

struct fault {
    const struct io *inner;
    uint64_t count, fail_at;
    int fail_code;
    bool torn, stay_dead;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool gate_closed;
};
extern struct fault fault;

/** fault_arm() - make operation number @fail_at fail with @code */
void fault_arm(uint64_t fail_at, int code, bool torn, bool stay_dead);

/** fault_disarm() - let all operations succeed */
void fault_disarm(void);

/** fault_gate() - close or open the gate in create() */
void fault_gate(bool closed);

/** fault_table() - return the table that fails on demand, over @inner */
const struct io *fault_table(const struct io *inner);
