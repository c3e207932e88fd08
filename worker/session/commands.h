/*
 * Commands from firnd. The control thread sees every message first and acts on the urgent ones; the
 * main thread takes the same messages at its next check.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/messages/control.h"
#include "protocol/pending_plan.h"

struct trainer;

/* The commands of firnd that are not carried out yet. */
struct commands {
    struct pending_plan pending; /* newer than the plan */
    uint64_t prepared;           /* generation of the last plan that PREPARE named */
    int cancel;                  /* an eventfd that interrupts mesh_open() */
    /* Written by one thread, read by the other, atomically: */
    bool stopping;
    uint64_t generation;      /* of the plan */
    uint64_t announced;       /* the newest planned generation that firnd has announced */
    bool waits_for_switch;    /* the main thread waits for workers that still compute their step */
    uint64_t held_generation; /* firnd forbids commits of generations up to this one; 0: none */
};

/** commands_observe() - on the control thread: handle urgent messages. A stop, and a plan that is
 * in force at once, break the links; a hold is noted. @context: the trainer */
void commands_observe(void *context, const struct control_message *message);

/** commands_take() - handle the messages that have arrived; @deadline_ns: monotonic, waits for one
 * message until then; 0: does not wait */
void commands_take(struct trainer *trainer, uint64_t deadline_ns);
bool commands_stopping(const struct commands *commands);
/** commands_await_stop() - wait until firnd orders this worker to stop */
void commands_await_stop(struct trainer *trainer);

/** commands_next_plan() - wait for a plan that is newer than the last one; owned by the caller.
 * NULL when ordered to stop, or at @deadline_ns */
struct plan *commands_next_plan(struct trainer *trainer, uint64_t deadline_ns);
/** commands_announced_plan() - wait for the plan of @generation, which a commit or rank 0 within a
 * step announced, or a newer one; borrowed, NULL when it does not come. An older plan is ignored,
 * because the announced one has superseded it: a firnd that was suspended may send it first */
const struct plan *commands_announced_plan(struct trainer *trainer, uint64_t generation);
/** commands_ready_generation() - on the main thread, between two micro-batches or steps: return the
 * generation of the planned change that firnd has announced, if this worker is ready for it; 0:
 * there is none, or its memory is still being taken (worker/session/reserve.h) */
uint64_t commands_ready_generation(struct trainer *trainer);
