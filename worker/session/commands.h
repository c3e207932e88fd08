/*
 * Commands from firnd. The control thread sees every message first and acts on the urgent ones; the
 * main thread takes the same messages at its next check.
 */
#pragma once

#include "worker/session/trainer.h"

/** commands_observe() - on the control thread: handle urgent messages. A stop, and a plan that is
 * in force at once, break the links; a hold is noted. @context: the trainer */
void commands_observe(void *context, const struct control_message *message);

/** commands_take() - handle the messages that have arrived; @deadline_ns: monotonic, waits for one
 * message until then; 0: does not wait */
void commands_take(struct trainer *trainer, uint64_t deadline_ns);
bool commands_stopping(const struct trainer *trainer);
/** commands_await_stop() - wait until firnd orders this worker to stop */
void commands_await_stop(struct trainer *trainer);

/** commands_next_plan() - wait for a plan that is newer than the last one; owned by the caller.
 * NULL when ordered to stop, or at @deadline_ns */
struct plan *commands_next_plan(struct trainer *trainer, uint64_t deadline_ns);
/** commands_announced_plan() - wait for the plan of @generation, which a commit announced, or a
 * newer one; borrowed, NULL when it does not come. An older plan is ignored, because the announced
 * one has superseded it: a firnd that was suspended may send it first */
const struct plan *commands_announced_plan(struct trainer *trainer, uint64_t generation);
/** commands_forget_planned() - drop a planned plan: its switch will not come */
void commands_forget_planned(struct trainer *trainer);
