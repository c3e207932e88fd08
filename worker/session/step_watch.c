#include "worker/session/step_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "elastic/plan/early_switch.h"
#include "worker/session/commands.h"
#include "worker/session/trainer.h"
#include "worker/step/tree_exchange.h"

#define REASON_SIZE  96
#define REASON_BEGIN "generation "

/* The index of a message's tag. */
enum message { HAS_PLAN };

static void say_reason(uint64_t generation, uint64_t step, char ret_reason[REASON_SIZE])
{
    snprintf(ret_reason, REASON_SIZE, REASON_BEGIN "%" PRIu64 " begins within step %" PRIu64,
             generation, step);
}

void step_watch_begin(struct step_watch *watch)
{
    *watch = (struct step_watch){.began_ns = clock_monotonic_ns()};
}

/* Take what has arrived from @child, without waiting. */
static int hear_child(const struct tree_exchange *place, unsigned child, uint64_t *told)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(place->mesh, child, tag_make(place->kind, place->step, HAS_PLAN),
                                  1, &message, &size_bytes);

    if (status == -ETIMEDOUT)
        return 0;
    if (!status && size_bytes != sizeof(uint64_t))
        return -EBADMSG;
    if (!status) {
        struct words_reader words = {.at = message, .count = 1};
        *told = words_take(&words);
    }
    return status;
}

static int tell_parent(const struct tree_exchange *place, uint64_t generation)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    struct words_writer writer = {.bytes = &message};

    words_put(&writer, generation);
    return writer.status ? writer.status
                         : tree_exchange_send(place, place->parent, HAS_PLAN, &message);
}

/* Return whether this rank and its subtree have the plan of @generation. */
static bool subtree_has(struct step_watch *watch, const struct tree_exchange *place,
                        uint64_t generation)
{
    bool all = true;

    for (unsigned i = 0; i < place->child_count; i++) {
        if (hear_child(place, place->first_child + i, &watch->children[i]))
            return false; /* the links broke: the engine is about to see it */
        all = all && watch->children[i] == generation;
    }
    return all;
}

/* On rank 0, when every rank has the plan. */
static bool decide(struct trainer *trainer, uint64_t generation, unsigned done, unsigned count)
{
    const struct plan *next;
    char reason[REASON_SIZE];

    next = trainer->commands.pending;
    if (!next || next->generation != generation || !done)
        return false;
    double passed = (double)(clock_monotonic_ns() - trainer->watch.began_ns) / 1e9;
    double left = passed / done * (count - done);
    if (!early_switch_pays(trainer->plan, next, left, trainer->commit.switch_seconds))
        return false;
    say_reason(generation, trainer->state->hold.step, reason);
    mesh_abort(trainer->links.mesh, reason);
    return true;
}

bool step_watch_leaves(void *context, unsigned done, unsigned count)
{
    struct trainer *trainer = context;
    struct step_watch *watch = &trainer->watch;
    uint64_t generation = reserve_announced(trainer);
    struct tree_exchange place;

    /* Near the end the other stages may hold the step already. A device may lack the room to keep
     * its sums. */
    if (!generation || !trainer->device.kernel->host_memory ||
        count - done <= 2 * trainer->plan->layout.stage_count)
        return false;
    tree_exchange_init(&place, trainer->links.mesh, &trainer->plan->layout,
                       trainer->engine->part.rank, TAG_HAS_PLAN, trainer->state->hold.step);
    if (!subtree_has(watch, &place, generation))
        return false;
    if (!place.rank)
        return decide(trainer, generation, done, count);
    if (watch->told != generation && !tell_parent(&place, generation))
        watch->told = generation;
    return false;
}

uint64_t step_watch_switch(const struct trainer *trainer)
{
    char reason[REASON_SIZE];
    struct mesh_fault fault;

    mesh_fault(trainer->links.mesh, &fault);
    if (!fault.failed || strncmp(fault.root_cause, REASON_BEGIN, strlen(REASON_BEGIN)) != 0)
        return 0;
    uint64_t generation = strtoull(fault.root_cause + strlen(REASON_BEGIN), NULL, 10);
    say_reason(generation, trainer->state->hold.step, reason);
    bool is_ours = generation > trainer->commands.generation && !strcmp(fault.root_cause, reason);
    return is_ours ? generation : 0;
}
