/*
 * Fixtures for tests: a key-value store that completes a write only when the test answers, and a
 * loop whose timers fire when the test says so. The store handles one request and one timer at a
 * time; its tests need no more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "membership/kv/kv.h"
#include "membership/transport/loop.h"

struct kv_request {
    int unused;
};

struct loop_timer {
    void (*fired)(void *user);
    void *user;
    uint64_t at_ns;
};

struct fake_store {
    struct kv kv;
    struct loop loop;
    uint64_t now_ns;
    struct loop_timer timer;
    struct kv_request request;
    bool in_flight;
    kv_callback done;
    void *user;
    char key[KV_KEY_MAX], value[256]; /* of the put in flight; no value: a read */
    int64_t guard;                    /* the revision that guards the put */
    int64_t revision;                 /* of the last answer */
    unsigned started, cancelled;
    int refuse; /* the next txn does not start, and returns this code */
};

/** fake_store_init() - make an empty store at time 0 */
void fake_store_init(struct fake_store *store);

/** fake_store_answer() - End the put in flight with @status */
void fake_store_answer(struct fake_store *store, int status);

/** fake_store_answer_changed() - Answer that the guard of the put in flight did not hold */
void fake_store_answer_changed(struct fake_store *store);

/** fake_store_answer_read() - Answer the read in flight: the key was written at @revision; 0: it is
 * absent */
void fake_store_answer_read(struct fake_store *store, int64_t revision);

/** fake_store_wait() - Let time pass until the timer fires; fail if it never would */
void fake_store_wait(struct fake_store *store);
