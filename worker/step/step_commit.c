#include "worker/step/step_commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "elastic/plan/commit_tree.h"
#include "worker/device/tags.h"
#include "worker/step/step_commit_message.h"

struct round {
    struct mesh *mesh;
    const struct plan_layout *layout;
    unsigned rank;
    bool closing;
    uint64_t up_tag, down_tag;
    struct step_commit_part sum;   /* of this rank and its subtree */
    struct step_commit_part child; /* received last */
};

void step_commit_readiness_init(struct step_commit_readiness *readiness, unsigned rank,
                                uint64_t announced)
{
    *readiness =
        (struct step_commit_readiness){.announced_min = announced, .announced_max = announced};
    if (!announced)
        readiness->lacking[readiness->lacking_count++] = rank;
}

static void merge_readiness(struct step_commit_readiness *sum,
                            const struct step_commit_readiness *part)
{
    if (part->announced_min)
        sum->announced_min =
            sum->announced_min ? MIN(sum->announced_min, part->announced_min) : part->announced_min;
    sum->announced_max = MAX(sum->announced_max, part->announced_max);
    for (uint64_t i = 0; i < part->lacking_count; i++, sum->lacking_count++)
        if (i < STEP_COMMIT_LACKING_MAX && sum->lacking_count < STEP_COMMIT_LACKING_MAX)
            sum->lacking[sum->lacking_count] = part->lacking[i];
}

bool step_commit_ready(const struct step_commit_readiness *readiness,
                       const struct plan_layout *layout, const struct plan *next)
{
    if (readiness->announced_min != next->generation ||
        readiness->announced_max != next->generation ||
        readiness->lacking_count > STEP_COMMIT_LACKING_MAX)
        return false;
    if (next->layout.worker_count == 0) /* all ranks write the last checkpoint together */
        return readiness->lacking_count == 0;
    for (uint64_t i = 0; i < readiness->lacking_count; i++) {
        const struct plan_worker *worker = &layout->workers[readiness->lacking[i]];
        if (plan_layout_find(&next->layout, worker->node, worker->slot) >= 0)
            return false;
    }
    return true;
}

static int receive(const struct round *round, unsigned peer, uint64_t tag, void **ret_message,
                   size_t *ret_size_bytes)
{
    return mesh_receive_any(round->mesh, peer, tag, UINT64_MAX, ret_message, ret_size_bytes);
}

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

/* Return true if both know the state of a unit, and differ. */
static bool merge_digests(struct unit_digests *sum, const struct unit_digests *part)
{
    bool disputed = false;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++) {
        if (!part->known[unit])
            continue;
        disputed = disputed || (sum->known[unit] && sum->values[unit] != part->values[unit]);
        sum->known[unit] = true;
        sum->values[unit] = part->values[unit];
    }
    return disputed;
}

static int merge_part(struct step_commit_part *sum, const struct step_commit_part *part,
                      unsigned rank_count)
{
    struct step_commit_up *up = &sum->up;

    up->checkpoint_durable = MIN(up->checkpoint_durable, part->up.checkpoint_durable);
    up->checkpoint_busy |= part->up.checkpoint_busy;
    merge_failed(up, &part->up);
    merge_readiness(&up->readiness, &part->up.readiness);
    for (unsigned rank = 0; rank < rank_count; rank++)
        if (part->busy_ns[rank])
            sum->busy_ns[rank] = part->busy_ns[rank];
    sum->dispute = MAX(sum->dispute, part->dispute);
    if (merge_digests(&up->digests, &part->up.digests))
        sum->dispute = DISPUTE_STATE;
    if (!sum->dispute && step_record_disputed(&up->record, &part->up.record))
        sum->dispute = DISPUTE_GRADIENTS;
    return sum->dispute ? 0 : step_record_merge(&up->record, &part->up.record);
}

static int take_child(struct round *round, unsigned child, struct error *error)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    const struct plan_layout *layout = round->layout;
    int status = receive(round, child, round->up_tag, &message, &size_bytes);

    if (!status)
        status = step_commit_unpack_part(message, size_bytes, layout, &round->child);
    if (status)
        return status;
    if (round->child.up.data_digest != round->sum.up.data_digest)
        return error_set(
            error, -EILSEQ,
            "node %s reads other training data than node %s: data.path must hold the same files on "
            "every node",
            layout->workers[child].node, layout->workers[round->rank].node);
    return merge_part(&round->sum, &round->child, layout->worker_count);
}

static int gather(struct round *round, struct error *error)
{
    unsigned first, count = commit_tree_children(round->layout, round->rank, &first);
    int status = 0;

    for (unsigned i = 0; !status && i < count; i++)
        status = take_child(round, first + i, error);
    return status;
}

/* ---- down ---- */

static int send_down(const struct round *round, const struct step_commit_down *down)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    unsigned first, count = commit_tree_children(round->layout, round->rank, &first);
    int status = step_commit_pack_down(down, round->layout, round->closing, &message);

    for (unsigned i = 0; !status && i < count; i++)
        status = mesh_send(round->mesh, first + i, round->down_tag, message.data,
                           message.size_bytes, NULL);
    return status;
}

static int ask_parent(const struct round *round, struct step_commit_down *ret_down)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    AUTO_FREE void *answer = NULL;
    size_t size_bytes = 0;
    unsigned parent = commit_tree_parent(round->rank);
    int status = step_commit_pack_part(&round->sum, round->layout, &message);

    if (!status)
        status =
            mesh_send(round->mesh, parent, round->up_tag, message.data, message.size_bytes, NULL);
    if (!status)
        status = receive(round, parent, round->down_tag, &answer, &size_bytes);
    return status ? status
                  : step_commit_unpack_down(answer, size_bytes, round->layout, round->closing,
                                            ret_down);
}

/* Decide the root's message to all ranks. */
static int conclude(const struct round *round, const struct step_commit_root *root,
                    struct step_commit_down *ret_down, struct error *error)
{
    const struct step_commit_up *sum = &round->sum.up;

    ret_down->dispute = round->sum.dispute;
    ret_down->record = sum->record;
    if (ret_down->dispute)
        return 0;
    int status = root->may_commit ? root->may_commit(root->context) : 0;
    if (status)
        return status;
    if (!round->closing && !step_record_complete(&sum->record))
        return error_set(error, -EBADMSG, "step %" PRIu64 ": the record is incomplete at the root",
                         sum->record.step);
    ret_down->switch_generation = root->switch_generation;
    ret_down->checkpoint_durable = sum->checkpoint_durable;
    ret_down->checkpoint_failed = sum->checkpoint_failed;
    ret_down->unable = sum->unable;
    ret_down->checkpoint_busy = sum->checkpoint_busy;
    ret_down->readiness = sum->readiness;
    memcpy(ret_down->busy_ns, round->sum.busy_ns, sizeof(ret_down->busy_ns));
    if (!round->closing)
        straggler_slowest(round->layout, ret_down->busy_ns, ret_down->slowest);
    return 0;
}

int step_commit_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                    const struct step_commit_up *mine, const struct step_commit_root *root,
                    struct step_commit_down *ret_down, struct error *error)
{
    AUTO_FREE struct round *round = malloc(sizeof(*round)); /* large, and most of it is not used */

    memset(ret_down, 0, sizeof(*ret_down)); /* of a dispute the root sends the rest, too */
    if (!round)
        return -ENOMEM;
    round->mesh = mesh;
    round->layout = &plan->layout;
    round->rank = rank;
    round->closing = closing;
    round->up_tag = tag_make(closing ? TAG_CLOSING : TAG_HOLD, mine->record.step, 0);
    round->down_tag = tag_make(closing ? TAG_CLOSED : TAG_COMMIT, mine->record.step, 0);
    round->sum.up = *mine;
    round->sum.dispute = DISPUTE_NOTHING;
    memset(round->sum.busy_ns, 0, sizeof(round->sum.busy_ns));
    round->sum.busy_ns[rank] = mine->busy_ns;
    int status = gather(round, error);
    if (!status)
        status = rank == 0 ? conclude(round, root, ret_down, error) : ask_parent(round, ret_down);
    if (!status)
        status = send_down(round, ret_down);
    ret_down->dispute = MAX(ret_down->dispute, round->sum.dispute);
    return !status && ret_down->dispute ? STEP_COMMIT_DISPUTED : status;
}
