#include "protocol/step_commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "protocol/step_commit_message.h"

/* ---- up ---- */

/* Keep the unable ranks of the newest step that failed. */
static void merge_failed(struct step_commit_up *sum, const struct step_commit_up *part)
{
    if (part->checkpoint_failed > sum->checkpoint_failed) {
        sum->checkpoint_failed = part->checkpoint_failed;
        sum->unable = part->unable;
    } else if (part->checkpoint_failed == sum->checkpoint_failed) {
        checkpoint_writers_merge(&sum->unable, &part->unable);
    }
}

static int merge_part(struct step_commit_part *sum, const struct step_commit_part *part,
                      unsigned rank_count)
{
    struct step_commit_up *up = &sum->up;

    up->checkpoint_durable = MIN(up->checkpoint_durable, part->up.checkpoint_durable);
    up->checkpoint_busy |= part->up.checkpoint_busy;
    merge_failed(up, &part->up);
    readiness_merge(&up->readiness, &part->up.readiness);
    for (unsigned rank = 0; rank < rank_count; rank++)
        if (part->busy_ns[rank])
            sum->busy_ns[rank] = part->busy_ns[rank];
    sum->dispute = MAX(sum->dispute, part->dispute);
    if (unit_digests_merge(&up->digests, &part->up.digests))
        sum->dispute = DISPUTE_STATE;
    if (!sum->dispute && step_record_disputed(&up->record, &part->up.record))
        sum->dispute = DISPUTE_GRADIENTS;
    return sum->dispute ? 0 : step_record_merge(&up->record, &part->up.record);
}

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct step_commit *commit = content;
    const struct plan_layout *layout = commit->layout;
    int status = step_commit_unpack_part(data, size_bytes, layout, &commit->child);

    if (status)
        return status;
    if (commit->child.up.data_digest != commit->sum.up.data_digest)
        return error_set(
            commit->error, -EILSEQ,
            "node %s reads other training data than node %s: data.path must hold the same files on "
            "every node",
            layout->workers[child].node, layout->workers[commit->rank].node);
    status = merge_part(&commit->sum, &commit->child, layout->worker_count);
    commit->down.dispute = commit->sum.dispute;
    return status;
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct step_commit *commit = content;
    return step_commit_pack_part(&commit->sum, commit->layout, message);
}

/* ---- down ---- */

static int decide(void *content)
{
    struct step_commit *commit = content;
    const struct step_commit_up *sum = &commit->sum.up;
    struct step_commit_down *down = &commit->down;

    down->dispute = commit->sum.dispute;
    down->record = sum->record;
    if (down->dispute)
        return 0;
    if (!commit->closing && !step_record_complete(&sum->record))
        return error_set(commit->error, -EBADMSG,
                         "step %" PRIu64 ": the record is incomplete at the root",
                         sum->record.step);
    down->switch_generation = commit->switch_generation;
    down->checkpoint_durable = sum->checkpoint_durable;
    down->checkpoint_failed = sum->checkpoint_failed;
    down->unable = sum->unable;
    down->checkpoint_busy = sum->checkpoint_busy;
    memcpy(down->busy_ns, commit->sum.busy_ns, sizeof(down->busy_ns));
    if (!commit->closing)
        straggler_slowest(commit->layout, down->busy_ns, down->slowest);
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct step_commit *commit = content;
    int status =
        step_commit_unpack_down(data, size_bytes, commit->layout, commit->closing, &commit->down);

    commit->down.dispute = MAX(commit->down.dispute, commit->sum.dispute);
    return status;
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct step_commit *commit = content;
    return step_commit_pack_down(&commit->down, commit->layout, commit->closing, message);
}

void step_commit_begin(struct step_commit *commit, struct tree_round *round,
                       const struct plan_layout *layout, unsigned rank, bool closing,
                       const struct step_commit_up *mine, struct error *error)
{
    static const struct tree_question question = {take_part, pack_part, decide, take_answer,
                                                  pack_answer};

    commit->layout = layout;
    commit->rank = rank;
    commit->closing = closing;
    commit->switch_generation = 0;
    commit->error = error;
    commit->sum.up = *mine;
    commit->sum.dispute = DISPUTE_NOTHING;
    memset(commit->sum.busy_ns, 0, sizeof(commit->sum.busy_ns));
    commit->sum.busy_ns[rank] = mine->busy_ns;
    memset(&commit->down, 0, sizeof(commit->down)); /* in a dispute the root also sends the other
                                                       members */
    tree_round_begin(round, &question, commit, layout, rank);
}

void step_commit_switch(struct step_commit *commit, const struct plan *plan,
                        const struct plan *next)
{
    commit->switch_generation = readiness_switch(&commit->sum.up.readiness, plan, next);
}
