/* Shared by the leader's files: slots to plan with, and the two ways to a new plan. */
#pragma once

#include "elastic/leader/leader_roster.h"
#include "elastic/leader/netsplit_graph.h"
#include "elastic/recovery/preemption.h"
#include "elastic/recovery/state_moves.h"

/* The inputs of a decision (the view, the roster) and its result. */
struct leader_context {
    const struct leader_view *view;
    struct leader_memory *memory;
    struct roster roster;
    struct leader_decision *decision;
    struct error *error;
    const struct member *left_out[NETSPLIT_NODES_MAX]; /* of the plan that is being made */
    unsigned left_out_count;
    bool readers_only; /* nodes that cannot read the checkpoint are left out anyway */
    unsigned gives;    /* slots that this plan leaves to another job */
    struct plan_shape shape_wanted, shape_avoided; /* the required and the excluded layout
                                                      (leader_trial.h) */
};

/* Slots that a plan may use. */
struct slot_pool {
    struct planner_slot *slots;
    unsigned count, room;
    unsigned devices_least; /* a plan may use this many slots even if fewer are asked for */
};

void slot_pool_done(struct slot_pool *pool);

/** slot_pool_add() - add @slot of @node to @pool. @held: units of its worker; NULL: a fresh
 * process. Return: 0; -ENOMEM; -EINVAL: its address is too long */
int slot_pool_add(struct leader_context *context, struct slot_pool *pool, const struct member *node,
                  unsigned slot, uint64_t instance,
                  const struct state_moves_range *held) CHECK_RESULT;

/** slot_pool_add_free() - add every slot on which a process may start now, except @kept slots that
 * are kept for other jobs (elastic/leader/slot_queue.h) */
int slot_pool_add_free(struct leader_context *context, struct slot_pool *pool,
                       unsigned kept) CHECK_RESULT;

/** leader_avoid() - start no process on this slot for a while, unless its firnd is a new one: two
 * failure timeouts the first time (a cable unplugged for a moment must not cost half a minute),
 * then twice as long each time that it recurs within the longest pause */
void leader_avoid(struct leader_context *context, const char *node_name, unsigned slot);

/** leader_devices_now() - return leader_devices_max(), less the slots that the plan being made
 * gives up */
unsigned leader_devices_now(const struct leader_context *context);
/** leader_devices_max(), leader_devices_min() - return the bounds that the user asked for last */
unsigned leader_devices_max(const struct leader_view *view);
unsigned leader_devices_min(const struct leader_view *view);
/** leader_wants() - return whether @layout has the shape that the user asked for last, on no more
 * devices than allowed */
bool leader_wants(const struct leader_view *view, const struct plan_layout *layout);
/** leader_regrets() - return whether the user asks for something else than @plan, which has not
 * begun: another shape, fewer devices, or more again than it was limited to */
bool leader_regrets(const struct leader_view *view, const struct plan *plan);

/** leader_layout() - run the planner over @pool into the layout part of a new plan; -ENOSPC as
 * planner_run() */
int leader_layout(struct leader_context *context, const struct slot_pool *pool,
                  unsigned frozen_layers, struct plan **ret_plan) CHECK_RESULT;

/** leader_predict() - predict the seconds of a step of @layout with @frozen_layers frozen, on slots
 * as fast as @pool says */
int leader_predict(struct leader_context *context, const struct slot_pool *pool,
                   const struct plan_layout *layout, unsigned frozen_layers,
                   double *ret_seconds) CHECK_RESULT;

/** leader_transfer() - call state_moves_fill() with the units' real sizes */
int leader_transfer(struct leader_context *context, struct plan *plan,
                    const struct state_moves_holder *holders, unsigned holder_count) CHECK_RESULT;

/** leader_unit_bytes() - return the bytes of each unit's state, malloc'ed, and a link's throughput;
 * NULL when memory is short */
size_t *leader_unit_bytes(struct leader_context *context, unsigned frozen_layers,
                          double *ret_link_bytes_per_second);

/** leader_empty_plan() - end the generation in force; the plan lists every live process as
 * leaving */
int leader_empty_plan(struct leader_context *context, enum plan_reason reason, bool planned,
                      const char *text) CHECK_RESULT;

/** leader_empty_plan_instead() - as leader_empty_plan(), in place of the planned change in force,
 * which has not begun: the plan follows @follows, the running generation */
int leader_empty_plan_instead(struct leader_context *context, uint64_t follows,
                              enum plan_reason reason, const char *text) CHECK_RESULT;

/** leader_start() - plan from the newest checkpoint or step 0, or say why the job waits */
int leader_start(struct leader_context *context) CHECK_RESULT;

/** leader_waits_for_slots() - return true if the job waits for slots, and not for a checkpoint */
bool leader_waits_for_slots(const struct leader_context *context);

/** leader_restart() - as leader_start(), over @pool and for @reason; @why is for people */
int leader_restart(struct leader_context *context, const struct slot_pool *pool,
                   enum plan_reason reason, const char *why) CHECK_RESULT;

/* The requirements on a slot for a new worker of the job. */
struct leader_compatibility {
    const char *numerics_identity; /* NULL: any */
    unsigned links;
};

/** leader_compatibility() - return the requirements of the plan in force; if no plan runs, those
 * that most slots meet */
struct leader_compatibility leader_compatibility(const struct leader_context *context);
bool leader_compatibility_has(const struct leader_compatibility *kind, const struct member *node,
                              const struct member_slot *slot);
/** leader_compatibility_words() - say why @kind excludes slots of @node: "node c computes with ...,
 * this job with ..."; "": no slot is excluded */
void leader_compatibility_words(const struct leader_compatibility *kind, const struct member *node,
                                char *ret_words, size_t size);
/** leader_compatibility_has_changed() - return whether the next plan has another link protocol than
 * the one in force, which is empty: its workers cannot take part */
bool leader_compatibility_has_changed(const struct leader_context *context);
/** leader_compatibility_is_over() - return whether no node starts workers of the link protocol of
 * the plan in force any more, and slots of another link protocol are enough for the job */
bool leader_compatibility_is_over(const struct leader_context *context);
/** leader_compatibility_say() - add to the job's text which nodes are left out for their version */
void leader_compatibility_say(struct leader_context *context);

/** leader_act() - put @plan (taken) under the next number into the decision */
void leader_act(struct leader_context *context, enum leader_action action, struct plan *plan);

/** leader_say() - set the decision's state and text */
void leader_say(struct leader_context *context, enum job_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** leader_add() - append to the decision's text */
void leader_add(struct leader_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** leader_wake() - ask for another call at @at_ns at the latest */
void leader_wake(struct leader_context *context, uint64_t at_ns);

/** leader_checkpoint_is_ahead() - return whether the newest checkpoint is of a later step than
 * @step, and the job has not gone back to an earlier checkpoint since: a leader that gave up the
 * newest one, because it could not be read, knew more than this leader */
bool leader_checkpoint_is_ahead(const struct leader_context *context, uint64_t step);
/** leader_start_time_ns() - return the longest time that the plan in force may take until its
 * workers run */
uint64_t leader_start_time_ns(const struct leader_context *context);

/** leader_explain_wait() - say why the job waits: "waits for slots: wants at least 4, 2 are free
 * (node c is draining)" */
void leader_explain_wait(struct leader_context *context, enum job_state state,
                         unsigned usable_count, const char *planner_text);

/** leader_has_failed() - return whether the plan in force cannot continue, because one of its
 * workers is lost or stuck, say */
bool leader_has_failed(const struct leader_context *context);
/** leader_start_is_limited() - return whether the plan in force waits only for its own workers: a
 * planned change waits for the workers of the previous generation as long as they exist */
bool leader_start_is_limited(const struct leader_context *context);
/** leader_start_timed_out() - return whether the plan in force has exceeded its time to begin, and
 * no worker runs in it */
bool leader_start_timed_out(const struct leader_context *context);

/** leader_recover() - wait for the survivors' reports, or publish a plan that recovers */
int leader_recover(struct leader_context *context) CHECK_RESULT;

/** leader_change() - with a plan that works: prepare, publish or drop a better one */
int leader_change(struct leader_context *context) CHECK_RESULT;

/**
 * leader_preempted() - decide how the job leaves nodes that must be empty by a given time
 * @with_start: processes that take over must be started first
 * @ret_numbers: the numbers behind the decision, for people
 */
enum preemption_way leader_preempted(struct leader_context *context, bool with_start,
                                     struct preemption *ret_numbers);

/** leader_time_left() - return the time until the first node goes on which the job trains, or from
 * which a plan that has not begun takes state; UINT64_MAX: no node goes at a given time */
uint64_t leader_time_left(const struct leader_context *context);

/** leader_holder() - return a member as a source of state; its ranges are empty */
struct state_moves_holder leader_holder(const struct roster_member *member,
                                        const struct plan_layout *layout);
