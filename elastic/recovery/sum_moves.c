#include "elastic/recovery/sum_moves.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NO_RANK UINT_MAX

struct scene {
    struct plan *plan;
    const struct plan_layout *before;
    const struct state_moves_holder *holders;
    unsigned holder_count, frozen_units;
    unsigned *rank_of;  /* per worker of the generation before: in the plan, or NO_RANK */
    unsigned *heirs_of; /* per replica of the plan: how many replicas it has inherited */
    unsigned *common;   /* per replica of the plan: units that stay in place there */
    unsigned room;      /* of plan->start.sums */
};

static unsigned overlap(const struct scene *scene, const unsigned *a, const unsigned *b)
{
    unsigned first = MAX(MAX(a[0], b[0]), scene->frozen_units), end = MIN(a[1], b[1]);

    return end > first ? end - first : 0;
}

static const unsigned *units_before(const struct scene *scene, unsigned worker)
{
    return &scene->before->stage_first_unit[worker % scene->before->stage_count];
}

static const struct state_moves_holder *holder_of(const struct scene *scene, unsigned worker)
{
    const struct plan_worker *at = &scene->before->workers[worker];

    for (unsigned i = 0; i < scene->holder_count; i++)
        if (scene->holders[i].slot == at->slot && strcmp(scene->holders[i].node, at->node) == 0)
            return &scene->holders[i];
    return NULL;
}

/* Return whether the worker's process is there, and no other one gets its slot. */
static bool can_give(const struct scene *scene, unsigned worker)
{
    const struct plan_layout *layout = &scene->plan->layout;
    const struct state_moves_holder *holder = holder_of(scene, worker);
    int rank = holder ? plan_layout_find(layout, holder->node, holder->slot) : -1;

    return holder && !holder->avoid &&
           (rank < 0 || layout->workers[rank].instance == holder->instance);
}

static bool replica_can_give(const struct scene *scene, unsigned replica)
{
    const struct plan_layout *before = scene->before;

    for (unsigned stage = 0; stage < before->stage_count; stage++)
        if (before->stage_first_unit[stage + 1] > scene->frozen_units &&
            !can_give(scene, plan_layout_rank(before, replica, stage)))
            return false;
    return true;
}

/* Return the replica of the plan in which most units of @replica stay in place; among equals, one
 * that has inherited least. */
static unsigned find_heir(const struct scene *scene, unsigned replica)
{
    const struct plan_layout *layout = &scene->plan->layout;
    unsigned heir = 0;

    memset(scene->common, 0, layout->replica_count * sizeof(*scene->common));
    for (unsigned stage = 0; stage < scene->before->stage_count; stage++) {
        unsigned worker = plan_layout_rank(scene->before, replica, stage);
        unsigned rank = scene->rank_of[worker];
        if (rank < layout->worker_count)
            scene->common[rank / layout->stage_count] +=
                overlap(scene, units_before(scene, worker),
                        &layout->stage_first_unit[rank % layout->stage_count]);
    }
    for (unsigned other = 1; other < layout->replica_count; other++) {
        unsigned more = scene->common[other], most = scene->common[heir];
        if (more > most || (more == most && scene->heirs_of[other] < scene->heirs_of[heir]))
            heir = other;
    }
    return heir;
}

/* Return the rank of a worker that gives; one that leaves becomes a donor. */
static int find_giver(struct scene *scene, unsigned worker, unsigned *ret_rank)
{
    struct plan_layout *layout = &scene->plan->layout;
    int status = 0;

    if (scene->rank_of[worker] == NO_RANK) {
        status = state_moves_add_donors(layout, holder_of(scene, worker), 1);
        if (!status)
            scene->rank_of[worker] = layout->worker_count + layout->donor_count - 1;
    }
    *ret_rank = scene->rank_of[worker];
    return status;
}

static int add(struct scene *scene, unsigned worker, unsigned to_rank)
{
    struct plan_start *start = &scene->plan->start;
    unsigned from_rank;
    int status = find_giver(scene, worker, &from_rank);

    if (status)
        return status;
    if (start->sums_count == scene->room) {
        unsigned room = 2 * scene->room + 16;
        struct plan_move *grown = realloc(start->sums, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        start->sums = grown;
        scene->room = room;
    }
    start->sums[start->sums_count++] =
        (struct plan_move){.from_rank = from_rank, .to_rank = to_rank};
    return 0;
}

static int add_replica(struct scene *scene, unsigned replica)
{
    const struct plan_layout *before = scene->before, *layout = &scene->plan->layout;
    unsigned heir = find_heir(scene, replica);
    int status = 0;

    scene->heirs_of[heir]++;
    for (unsigned stage = 0; stage < before->stage_count; stage++) {
        unsigned worker = plan_layout_rank(before, replica, stage);
        for (unsigned into = 0; !status && into < layout->stage_count; into++) {
            unsigned to_rank = plan_layout_rank(layout, heir, into);
            if (to_rank != scene->rank_of[worker] &&
                overlap(scene, units_before(scene, worker), &layout->stage_first_unit[into]) > 0)
                status = add(scene, worker, to_rank);
        }
    }
    return status;
}

static void find_ranks(const struct scene *scene)
{
    for (unsigned worker = 0; worker < scene->before->worker_count; worker++) {
        const struct plan_worker *at = &scene->before->workers[worker];
        int rank = plan_layout_find(&scene->plan->layout, at->node, at->slot);
        scene->rank_of[worker] = rank >= 0 && can_give(scene, worker) ? (unsigned)rank : NO_RANK;
    }
}

static int compare(const void *a, const void *b)
{
    const struct plan_move *one = a, *other = b;

    if (one->from_rank != other->from_rank)
        return one->from_rank < other->from_rank ? -1 : 1;
    return (one->to_rank > other->to_rank) - (one->to_rank < other->to_rank);
}

int sum_moves_fill(struct plan *plan, const struct plan_layout *before,
                   const struct state_moves_holder *holders, unsigned holder_count,
                   unsigned frozen_units)
{
    unsigned replicas = plan->layout.replica_count;
    AUTO_FREE unsigned *numbers =
        calloc((size_t)before->worker_count + 2 * (size_t)replicas + 1, sizeof(*numbers));
    struct scene scene = {.plan = plan,
                          .before = before,
                          .holders = holders,
                          .holder_count = holder_count,
                          .frozen_units = frozen_units,
                          .rank_of = numbers};
    int status = 0;

    if (!numbers)
        return -ENOMEM;
    scene.heirs_of = numbers + before->worker_count;
    scene.common = scene.heirs_of + replicas;
    find_ranks(&scene);
    for (unsigned replica = 0; !status && replica < before->replica_count; replica++)
        if (replica_can_give(&scene, replica))
            status = add_replica(&scene, replica);
    if (plan->start.sums_count > 0)
        qsort(plan->start.sums, plan->start.sums_count, sizeof(*plan->start.sums), compare);
    return status;
}
