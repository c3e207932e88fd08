/*
 * What firnd says. The control thread sees every message first and acts on what cannot wait; the
 * main thread takes the same messages when it comes to look.
 */
#pragma once

#include "worker/session/trainer.h"

/** commands_observe() - on the control thread: only what cannot wait. A stop, and a plan that is in
 * force at once, break the links; a hold is noted. @context: the trainer */
void commands_observe(void *context, const struct control_message *message);

/** commands_take() - look at what has come; @deadline_ns: monotonic, waits for one message until
 * then; 0: does not wait */
void commands_take(struct trainer *trainer, uint64_t deadline_ns);
bool commands_stopping(const struct trainer *trainer);
/** commands_await_stop() - there is nothing more to do than what firnd orders: to stop */
void commands_await_stop(struct trainer *trainer);

/** commands_next_plan() - wait for a plan that is newer than the one before; the caller's. NULL
 * when ordered to stop, or at @deadline_ns */
struct plan *commands_next_plan(struct trainer *trainer, uint64_t deadline_ns);
/** commands_announced_plan() - the plan of @generation, which a commit announced, or a newer one;
 * borrowed, NULL when it does not come. An older one, which that plan has superseded, is nobody's
 * any more: a firnd that slept may tell of it first */
const struct plan *commands_announced_plan(struct trainer *trainer, uint64_t generation);
/** commands_forget_planned() - the switch that a planned plan is for will not come */
void commands_forget_planned(struct trainer *trainer);
