#include "worker/session/step_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "elastic/plan/early_switch.h"
#include "worker/device/tags.h"
#include "worker/session/commands.h"
#include "worker/session/trainer.h"
#include "worker/state/handover.h"
#include "worker/step/moved_sums.h"

#define REASON_SIZE  96
#define REASON_BEGIN "generation "

static void say_reason(uint64_t generation, uint64_t step, char ret_reason[REASON_SIZE])
{
    snprintf(ret_reason, REASON_SIZE, REASON_BEGIN "%" PRIu64 " begins within step %" PRIu64,
             generation, step);
}

void step_watch_begin(struct trainer *trainer)
{
    struct step_watch *watch = &trainer->watch;

    pending_plan_begin_step(&trainer->commands.pending);
    watch->began_ns = clock_monotonic_ns();
    watch->spread = (struct plan_spread){0};
    watch->looked = false;
}

void step_watch_end(struct trainer *trainer, uint64_t step_ns)
{
    trainer->watch.last_ns = step_ns;
}

/* This rank's place in the tree, in the step that is computed. */
struct place {
    struct mesh *mesh;
    unsigned rank, first_child, child_count;
    uint64_t tag;
};

static struct place place_of(const struct trainer *trainer)
{
    struct place place = {.mesh = trainer->links.mesh,
                          .rank = trainer->engine->part.rank,
                          .tag = tag_make(TAG_HAS_PLAN, trainer->state->hold.step, 0)};

    place.child_count =
        commit_tree_children(&trainer->plan->layout, place.rank, &place.first_child);
    return place;
}

/* Take a message that has arrived from a child, without waiting. */
static int hear_child(const struct place *place, unsigned child, struct plan_spread *spread)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(place->mesh, place->first_child + child, place->tag, 1, &message,
                                  &size_bytes);

    if (status == -ETIMEDOUT)
        return 0;
    return status ? status : plan_spread_take(spread, child, message, size_bytes);
}

static int tell_parent(const struct place *place, uint64_t generation)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = plan_spread_pack(generation, &message);

    return status ? status
                  : mesh_send(place->mesh, commit_tree_parent(place->rank), place->tag,
                              message.data, message.size_bytes, NULL);
}

/* Return whether this rank and its subtree have the plan of @generation. */
static bool subtree_has(struct plan_spread *spread, const struct place *place, uint64_t generation)
{
    for (unsigned child = 0; child < place->child_count; child++)
        if (hear_child(place, child, spread))
            return false; /* the links broke: the engine is about to see it */
    return plan_spread_is_complete(spread, place->child_count, generation);
}

/* The evaluation of the finished model, after which no step follows. */
static bool is_last_evaluation(const struct trainer *trainer)
{
    return trainer->state->hold.step > trainer->spec.train.steps;
}

/* Rank 0 may be done while others compute: then the previous step tells how long this one takes. It
 * also tells how long the training after the evaluation takes; none follows the last evaluation. */
static double seconds_left(const struct trainer *trainer, double passed_seconds,
                           const struct engine_progress *progress)
{
    double training = is_last_evaluation(trainer) ? 0 : (double)trainer->watch.last_ns / 1e9;

    if (progress->done == progress->count)
        return MAX(0.0, training - passed_seconds);
    double own = passed_seconds / progress->done * (progress->count - progress->done);
    return progress->evaluates ? own + training : own;
}

/* A part without work, which rank 0 may have in a divided step, is at its end. */
static bool has_just_begun(const struct engine_progress *progress)
{
    return progress->done == 0 && progress->count > 0;
}

/* On rank 0, when every rank has the plan. */
static bool decide(struct trainer *trainer, uint64_t generation,
                   const struct engine_progress *progress)
{
    struct step_watch *watch = &trainer->watch;
    uint64_t now_ns = clock_monotonic_ns();
    const struct plan *next = trainer->commands.pending.plan;
    char reason[REASON_SIZE];

    /* Near the end the other stages may hold the step already: then it is left only at a limit. */
    bool near_end = !progress->evaluates &&
                    progress->count - progress->done <= 2 * trainer->plan->layout.stage_count;

    /* A device may lack the room. */
    bool keeps_sums = !progress->evaluates && trainer->device.kernel->host_memory;

    if (!next || next->generation != generation || has_just_begun(progress))
        return false;
    if (watch->next_generation != generation) {
        watch->next_generation = generation;
        watch->next_since_ns = now_ns;
        watch->next_kept = early_switch_kept(&trainer->plan->layout, next);
    }
    double passed_seconds = (double)(now_ns - watch->began_ns) / 1e9;
    const struct early_switch step = {
        .passed_seconds = passed_seconds + (double)trainer->commit.before_ns / 1e9,
        .left_seconds = seconds_left(trainer, passed_seconds, progress),
        .pause_seconds = trainer->commit.switch_seconds > 0 ? trainer->commit.switch_seconds
                                                            : next->change.switch_seconds,
        .waited_seconds = (double)(now_ns - watch->next_since_ns) / 1e9,
        .kept = keeps_sums ? watch->next_kept : 0,
        .near_end = near_end,
        .ends = is_last_evaluation(trainer),
    };
    if (!early_switch_begins(trainer->plan, next, &step))
        return false;
    say_reason(generation, trainer->state->hold.step, reason);
    mesh_abort(trainer->links.mesh, reason);
    return true;
}

/* Take the children's messages of the previous step, in which this rank did not have the plan yet:
 * they have no effect now, and would stay in the mesh. */
static void forget_the_step_before(struct trainer *trainer)
{
    struct place place = place_of(trainer);
    struct plan_spread ignored = {0};

    place.tag = tag_make(TAG_HAS_PLAN, trainer->state->hold.step - 1, 0);
    for (unsigned child = 0; child < place.child_count; child++)
        if (hear_child(&place, child, &ignored))
            return; /* the links broke */
}

bool step_watch_leaves(struct trainer *trainer, const struct engine_progress *progress)
{
    struct step_watch *watch = &trainer->watch;
    uint64_t generation = commands_ready_generation(trainer);

    if (!watch->looked) {
        watch->looked = true;
        forget_the_step_before(trainer);
    }
    if (has_just_begun(progress)) /* an evaluation may be over, or input has not arrived yet */
        watch->began_ns = clock_monotonic_ns();
    bool arrived = (!trainer->handover || handover_has_arrived(trainer->handover)) &&
                   (!trainer->sums || moved_sums_have_arrived(trainer->sums));
    if (!generation || !arrived)
        return false;
    const struct place place = place_of(trainer);
    if (!subtree_has(&watch->spread, &place, generation))
        return false;
    if (!place.rank)
        return decide(trainer, generation, progress);
    if (watch->spread.told != generation && !tell_parent(&place, generation)) {
        watch->spread.told = generation;
        pending_plan_tell(&trainer->commands.pending, generation);
    }
    return false;
}

uint64_t step_watch_switch(const struct trainer *trainer, uint64_t step)
{
    char reason[REASON_SIZE];
    struct mesh_fault fault;

    mesh_fault(trainer->links.mesh, &fault);
    if (!fault.failed || strncmp(fault.root_cause, REASON_BEGIN, strlen(REASON_BEGIN)) != 0)
        return 0;
    uint64_t generation = strtoull(fault.root_cause + strlen(REASON_BEGIN), NULL, 10);
    say_reason(generation, step, reason);
    bool is_ours = generation > trainer->commands.generation && !strcmp(fault.root_cause, reason);
    return is_ours ? generation : 0;
}
