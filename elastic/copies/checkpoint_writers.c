#include "elastic/copies/checkpoint_writers.h"

#include <string.h>

#include "elastic/copies/copies.h"

void checkpoint_writers_merge(struct checkpoint_writers_unable *sum,
                              const struct checkpoint_writers_unable *part)
{
    for (uint64_t i = 0; i < part->count; i++, sum->count++)
        if (i < CHECKPOINT_WRITERS_UNABLE_MAX && sum->count < CHECKPOINT_WRITERS_UNABLE_MAX)
            sum->ranks[sum->count] = part->ranks[i];
}

static struct checkpoint_writers_resting *find(struct checkpoint_writers *writers, uint64_t rank)
{
    for (unsigned i = 0; i < writers->count; i++)
        if (writers->list[i].rank == rank)
            return &writers->list[i];
    return NULL;
}

static void note(struct checkpoint_writers *writers, uint64_t rank)
{
    struct checkpoint_writers_resting *resting = find(writers, rank);

    if (resting && resting->failed_round == writers->round)
        return;
    if (!resting && writers->count == CHECKPOINT_WRITERS_UNABLE_MAX)
        return;
    if (!resting) {
        resting = &writers->list[writers->count++];
        *resting = (struct checkpoint_writers_resting){.rank = (unsigned)rank};
    }
    resting->pause =
        resting->pause ? MIN(2 * resting->pause, (unsigned)CHECKPOINT_WRITERS_REST_MAX) : 1;
    resting->rest = resting->pause;
    resting->failed_round = writers->round;
    resting->tried_step = 0;
}

void checkpoint_writers_hear(struct checkpoint_writers *writers, uint64_t failed_step,
                             const struct checkpoint_writers_unable *unable, uint64_t durable_step)
{
    if (failed_step && failed_step == writers->begun_step &&
        unable->count <= CHECKPOINT_WRITERS_UNABLE_MAX)
        for (uint64_t i = 0; i < unable->count; i++)
            note(writers, unable->ranks[i]);
    writers->durable_step = durable_step;
}

/* With copies all ranks of a node write to one disk, and the node keeps copies there. */
static void mark(const struct plan *plan, unsigned rank, bool *left_out)
{
    left_out[rank] = true;
    for (unsigned other = 0; plan_keeps_copies(plan) && other < plan->layout.worker_count; other++)
        if (!strcmp(plan->layout.workers[other].node, plan->layout.workers[rank].node))
            left_out[other] = true;
}

static bool has_writer(const struct plan_layout *layout, unsigned stage, const bool *left_out)
{
    for (unsigned rank = stage; rank < layout->worker_count; rank += layout->stage_count)
        if (!left_out[rank])
            return true;
    return false;
}

static bool suffices(const struct plan_layout *layout, const bool *left_out)
{
    bool enough = !left_out[0];

    for (unsigned stage = 0; enough && stage < layout->stage_count; stage++)
        enough = has_writer(layout, stage, left_out);
    return enough;
}

/* Remove the ranks that recovered: all shares of a checkpoint that includes the rank's are
 * durable. */
static void forget_recovered(struct checkpoint_writers *writers)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < writers->count; i++) {
        uint64_t tried_step = writers->list[i].tried_step;
        if (!tried_step || writers->durable_step < tried_step)
            writers->list[kept++] = writers->list[i];
    }
    writers->count = kept;
}

void checkpoint_writers_begin(struct checkpoint_writers *writers, const struct plan *plan,
                              uint64_t step)
{
    forget_recovered(writers);
    writers->round++;
    writers->begun_step = step;
    memset(writers->left_out, 0, sizeof(writers->left_out));
    for (unsigned i = 0; i < writers->count; i++)
        if (writers->list[i].rest)
            mark(plan, writers->list[i].rank, writers->left_out);
    if (!suffices(&plan->layout, writers->left_out))
        memset(writers->left_out, 0, sizeof(writers->left_out));
    for (unsigned i = 0; i < writers->count; i++) {
        struct checkpoint_writers_resting *resting = &writers->list[i];
        if (resting->rest)
            resting->rest--;
        if (!writers->left_out[resting->rank] && !resting->tried_step)
            resting->tried_step = step;
    }
}
