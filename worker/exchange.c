#include "worker/exchange.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "worker/tags.h"

/* Numbers before the record: digest or switch, durable, failed, and upwards the readiness. */
#define DOWN_WORDS 3u
#define UP_WORDS   (6u + EXCHANGE_LACKING_MAX)

struct round {
    struct mesh *mesh;
    const struct plan *plan;
    unsigned rank;
    uint64_t up_tag, down_tag;
};

void exchange_readiness_init(struct exchange_readiness *readiness, unsigned rank,
                             uint64_t announced)
{
    *readiness =
        (struct exchange_readiness){.announced_min = announced, .announced_max = announced};
    if (!announced)
        readiness->lacking[readiness->lacking_count++] = rank;
}

static void merge_readiness(struct exchange_readiness *sum, const struct exchange_readiness *part)
{
    if (part->announced_min)
        sum->announced_min =
            sum->announced_min ? MIN(sum->announced_min, part->announced_min) : part->announced_min;
    sum->announced_max = MAX(sum->announced_max, part->announced_max);
    for (uint64_t i = 0; i < part->lacking_count; i++, sum->lacking_count++)
        if (i < EXCHANGE_LACKING_MAX && sum->lacking_count < EXCHANGE_LACKING_MAX)
            sum->lacking[sum->lacking_count] = part->lacking[i];
}

bool exchange_ready(const struct exchange_readiness *readiness, const struct plan *plan,
                    const struct plan *next)
{
    if (readiness->announced_min != next->generation ||
        readiness->announced_max != next->generation ||
        readiness->lacking_count > EXCHANGE_LACKING_MAX)
        return false;
    if (next->worker_count == 0) /* all write the last checkpoint together */
        return readiness->lacking_count == 0;
    for (uint64_t i = 0; i < readiness->lacking_count; i++) {
        const struct plan_worker *worker = &plan->workers[readiness->lacking[i]];
        if (plan_find(next, worker->node, worker->slot) >= 0)
            return false;
    }
    return true;
}

static int send_message(const struct round *round, unsigned peer, uint64_t tag,
                        const uint64_t *head, unsigned words, const struct step_record *record)
{
    struct bytes message = {0};
    uint8_t packed[8 * UP_WORDS];
    int status;

    for (unsigned i = 0; i < words; i++)
        bytes_put_u64(packed + 8 * i, head[i]);
    status = bytes_append(&message, packed, 8 * (size_t)words);
    if (!status)
        status = step_record_pack(record, &message);
    if (!status)
        status = mesh_send(round->mesh, peer, tag, message.data, message.size_bytes, NULL);
    bytes_done(&message);
    return status;
}

static int receive_message(const struct round *round, unsigned peer, uint64_t tag,
                           uint64_t *ret_head, unsigned words, struct step_record *ret_record)
{
    AUTO_FREE void *data = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(round->mesh, peer, tag, UINT64_MAX, &data, &size_bytes);

    if (status)
        return status;
    if (size_bytes < 8 * (size_t)words)
        return -EBADMSG;
    for (unsigned i = 0; i < words; i++)
        ret_head[i] = bytes_get_u64((const uint8_t *)data + 8 * i);
    return step_record_unpack((const uint8_t *)data + 8 * words, size_bytes - 8 * words,
                              ret_record);
}

static const char *worker_name(const struct plan *plan, unsigned rank)
{
    return plan->workers[rank].node;
}

static void pack_up(const struct exchange_up *up, uint64_t head[UP_WORDS])
{
    const struct exchange_readiness *readiness = &up->readiness;

    head[0] = up->data_digest;
    head[1] = up->checkpoint_durable;
    head[2] = up->checkpoint_failed;
    head[3] = readiness->announced_min;
    head[4] = readiness->announced_max;
    head[5] = readiness->lacking_count;
    memcpy(head + 6, readiness->lacking, sizeof(readiness->lacking));
}

/* -EBADMSG: it names a rank that there is not. */
static int unpack_readiness(const struct round *round, const uint64_t head[UP_WORDS],
                            struct exchange_readiness *ret_readiness)
{
    ret_readiness->announced_min = head[3];
    ret_readiness->announced_max = head[4];
    ret_readiness->lacking_count = head[5];
    memcpy(ret_readiness->lacking, head + 6, sizeof(ret_readiness->lacking));
    if (head[5] > round->plan->worker_count)
        return -EBADMSG;
    for (uint64_t i = 0; i < MIN(head[5], (uint64_t)EXCHANGE_LACKING_MAX); i++)
        if (ret_readiness->lacking[i] >= round->plan->worker_count)
            return -EBADMSG;
    return 0;
}

static int merge_child(const struct round *round, unsigned child, struct exchange_up *sum,
                       struct error *error)
{
    AUTO_FREE struct step_record *record = malloc(sizeof(*record));
    struct exchange_readiness readiness;
    uint64_t head[UP_WORDS];
    int status =
        record ? receive_message(round, child, round->up_tag, head, UP_WORDS, record) : -ENOMEM;

    if (!status)
        status = unpack_readiness(round, head, &readiness);
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
    merge_readiness(&sum->readiness, &readiness);
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
    const uint64_t head[DOWN_WORDS] = {down->switch_generation, down->checkpoint_durable,
                                       down->checkpoint_failed};
    unsigned first = round->rank * PLAN_TREE_FAN + 1;

    for (unsigned child = first; child < first + PLAN_TREE_FAN && child < round->plan->worker_count;
         child++) {
        int status = send_message(round, child, round->down_tag, head, DOWN_WORDS, &down->record);
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
    unsigned parent = (round->rank - 1) / PLAN_TREE_FAN;
    uint64_t head[UP_WORDS], answer[DOWN_WORDS];
    int status;

    pack_up(sum, head);
    status = send_message(round, parent, round->up_tag, head, UP_WORDS, &sum->record);
    if (!status)
        status =
            receive_message(round, parent, round->down_tag, answer, DOWN_WORDS, &ret_down->record);
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
        ret_down->readiness = sum->readiness;
    } else {
        status = ask_parent(&round, sum, ret_down);
    }
    return status ? status : send_down(&round, ret_down);
}
