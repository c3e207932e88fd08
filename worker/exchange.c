#include "worker/exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "worker/tags.h"

#define HEAD_BYTES 24 /* three u64 before the record, both ways */

struct round {
    struct mesh *mesh;
    const struct plan *plan;
    unsigned rank;
    uint64_t up_tag, down_tag;
};

static int send_message(const struct round *round, unsigned peer, uint64_t tag,
                        const uint64_t head[3], const struct step_record *record)
{
    struct bytes message = {0};
    uint8_t packed[HEAD_BYTES];
    int status;

    for (int i = 0; i < 3; i++)
        bytes_put_u64(packed + 8 * i, head[i]);
    status = bytes_append(&message, packed, sizeof(packed));
    if (!status)
        status = step_record_pack(record, &message);
    if (!status)
        status = mesh_send(round->mesh, peer, tag, message.data, message.size_bytes, NULL);
    bytes_done(&message);
    return status;
}

static int receive_message(const struct round *round, unsigned peer, uint64_t tag,
                           uint64_t ret_head[3], struct step_record *ret_record)
{
    AUTO_FREE void *data = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(round->mesh, peer, tag, UINT64_MAX, &data, &size_bytes);

    if (status)
        return status;
    if (size_bytes < HEAD_BYTES)
        return -EBADMSG;
    for (int i = 0; i < 3; i++)
        ret_head[i] = bytes_get_u64((const uint8_t *)data + 8 * i);
    return step_record_unpack((const uint8_t *)data + HEAD_BYTES, size_bytes - HEAD_BYTES,
                              ret_record);
}

static const char *worker_name(const struct plan *plan, unsigned rank)
{
    return plan->workers[rank].node;
}

static int merge_child(const struct round *round, unsigned child, struct exchange_up *sum,
                       struct error *error)
{
    AUTO_FREE struct step_record *record = malloc(sizeof(*record));
    uint64_t head[3];
    int status = record ? receive_message(round, child, round->up_tag, head, record) : -ENOMEM;

    if (status)
        return status;
    if (head[0] != sum->data_digest)
        return error_set(
            error, -EILSEQ,
            "node %s reads other training data than node %s: data.path must hold the same files on "
            "every node",
            worker_name(round->plan, child), worker_name(round->plan, round->rank));
    sum->checkpoint_durable = MIN(sum->checkpoint_durable, head[1]);
    sum->checkpoint_failed = MAX(sum->checkpoint_failed, head[2]);
    if (step_record_merge(&sum->record, record))
        return error_set(
            error, -EILSEQ,
            "step %" PRIu64
            ": replicas of one stage have different gradients (seen between rank %u on "
            "node %s and rank %u on node %s); a device computes wrongly",
            sum->record.step, child, worker_name(round->plan, child), round->rank,
            worker_name(round->plan, round->rank));
    return 0;
}

static int send_down(const struct round *round, const struct exchange_down *down)
{
    const uint64_t head[3] = {down->switch_generation, down->checkpoint_durable,
                              down->checkpoint_failed};
    unsigned first = round->rank * PLAN_TREE_FAN + 1;

    for (unsigned child = first; child < first + PLAN_TREE_FAN && child < round->plan->worker_count;
         child++) {
        int status = send_message(round, child, round->down_tag, head, &down->record);
        if (status)
            return status;
    }
    return 0;
}

static int gather(const struct round *round, struct exchange_up *sum, struct error *error)
{
    unsigned first = round->rank * PLAN_TREE_FAN + 1;

    for (unsigned child = first; child < first + PLAN_TREE_FAN && child < round->plan->worker_count;
         child++) {
        int status = merge_child(round, child, sum, error);
        if (status)
            return status;
    }
    return 0;
}

static int ask_parent(const struct round *round, const struct exchange_up *sum,
                      struct exchange_down *ret_down)
{
    const uint64_t head[3] = {sum->data_digest, sum->checkpoint_durable, sum->checkpoint_failed};
    unsigned parent = (round->rank - 1) / PLAN_TREE_FAN;
    uint64_t answer[3];
    int status = send_message(round, parent, round->up_tag, head, &sum->record);

    if (!status)
        status = receive_message(round, parent, round->down_tag, answer, &ret_down->record);
    if (status)
        return status;
    ret_down->switch_generation = answer[0];
    ret_down->checkpoint_durable = answer[1];
    ret_down->checkpoint_failed = answer[2];
    return 0;
}

int exchange_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                 const struct exchange_up *mine, uint64_t switch_generation,
                 struct exchange_down *ret_down, struct error *error)
{
    const struct round round = {
        .mesh = mesh,
        .plan = plan,
        .rank = rank,
        .up_tag = tag_make(closing ? TAG_CLOSING : TAG_HOLD, mine->record.step, 0),
        .down_tag = tag_make(closing ? TAG_CLOSED : TAG_COMMIT, mine->record.step, 0),
    };
    AUTO_FREE struct exchange_up *sum = malloc(sizeof(*sum));
    int status;

    if (!sum)
        return -ENOMEM;
    *sum = *mine;
    status = gather(&round, sum, error);
    if (status)
        return status;
    if (rank == 0) {
        if (!closing && !step_record_complete(&sum->record))
            return error_set(error, -EBADMSG,
                             "step %" PRIu64 ": the record is incomplete at the root",
                             mine->record.step);
        ret_down->record = sum->record;
        ret_down->switch_generation = switch_generation;
        ret_down->checkpoint_durable = sum->checkpoint_durable;
        ret_down->checkpoint_failed = sum->checkpoint_failed;
    } else {
        status = ask_parent(&round, sum, ret_down);
    }
    return status ? status : send_down(&round, ret_down);
}
