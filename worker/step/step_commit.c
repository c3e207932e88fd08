#include "worker/step/step_commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "elastic/plan/commit_tree.h"
#include "worker/device/tags.h"

/*
 * A message is a count of words, the words, and the record. Every message has the words digest or
 * switch, durable, failed, dispute, busy, the unable ranks; upwards also the readiness and a count
 * of digests. Then come rows: upwards that many (unit, digest of its state), and (rank, ns) of
 * times; downwards (rank, its time, the fastest time) for each stage.
 */
#define UNABLE     5u /* index of their count; the ranks follow */
#define DOWN_WORDS (UNABLE + 1u + CHECKPOINT_WRITERS_UNABLE_MAX)
#define READINESS  DOWN_WORDS
#define UP_WORDS   (READINESS + 4u + STEP_COMMIT_LACKING_MAX)
#define UP_DIGESTS (UP_WORDS - 1u) /* index of their count */
#define UP_ROW     2u
#define DOWN_ROW   3u

struct round {
    struct mesh *mesh;
    const struct plan *plan;
    unsigned rank;
    bool closing;
    enum dispute_about dispute; /* at this rank or in its subtree */
    uint64_t up_tag, down_tag;
    uint64_t *words; /* of one message; room for the longest */
    unsigned room;
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

/* Send the first @count words of the round, and the record. */
static int send_message(const struct round *round, unsigned peer, uint64_t tag, unsigned count,
                        const struct step_record *record)
{
    struct bytes message = {0};
    uint8_t packed[8];
    int status;

    bytes_put_u64(packed, count);
    status = bytes_append(&message, packed, sizeof(packed));
    for (unsigned i = 0; !status && i < count; i++) {
        bytes_put_u64(packed, round->words[i]);
        status = bytes_append(&message, packed, sizeof(packed));
    }
    if (!status)
        status = step_record_pack(record, &message);
    if (!status)
        status = mesh_send(round->mesh, peer, tag, message.data, message.size_bytes, NULL);
    bytes_done(&message);
    return status;
}

/* Receive into the words of the round; *ret_count of them, at least @least. */
static int receive_message(const struct round *round, unsigned peer, uint64_t tag, unsigned least,
                           unsigned *ret_count, struct step_record *ret_record)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(round->mesh, peer, tag, UINT64_MAX, &message, &size_bytes);
    const uint8_t *data = message;

    if (status)
        return status;
    uint64_t count = size_bytes >= 8 ? bytes_get_u64(data) : 0;
    if (count < least || count > round->room || count > (size_bytes - 8) / 8)
        return -EBADMSG;
    for (unsigned i = 0; i < count; i++)
        round->words[i] = bytes_get_u64(data + 8 * (i + 1));
    *ret_count = (unsigned)count;
    return step_record_unpack(data + 8 * (count + 1), size_bytes - 8 * (count + 1), ret_record);
}

static void pack_unable(const struct checkpoint_writers_unable *unable, uint64_t *words)
{
    words[UNABLE] = unable->count;
    memcpy(words + UNABLE + 1, unable->ranks, sizeof(unable->ranks));
}

/* -EBADMSG: a rank is out of range. */
static int unpack_unable(const struct round *round, struct checkpoint_writers_unable *ret_unable)
{
    const uint64_t *words = round->words + UNABLE;

    if (words[0] > round->plan->layout.worker_count)
        return -EBADMSG;
    ret_unable->count = words[0];
    memcpy(ret_unable->ranks, words + 1, sizeof(ret_unable->ranks));
    for (uint64_t i = 0; i < MIN(words[0], (uint64_t)CHECKPOINT_WRITERS_UNABLE_MAX); i++)
        if (words[1 + i] >= round->plan->layout.worker_count)
            return -EBADMSG;
    return 0;
}

static const char *worker_name(const struct plan_layout *layout, unsigned rank)
{
    return layout->workers[rank].node;
}

/* Write to the words of the round. Returns their number. */
static unsigned pack_up(const struct round *round, const struct step_commit_up *up,
                        const uint64_t *busy_ns)
{
    uint64_t *head = round->words;
    unsigned count = UP_WORDS;
    const struct step_commit_readiness *readiness = &up->readiness;

    head[0] = up->data_digest;
    head[1] = up->checkpoint_durable;
    head[2] = up->checkpoint_failed;
    head[3] = round->dispute;
    head[4] = up->checkpoint_busy;
    pack_unable(&up->unable, head);
    head[READINESS] = readiness->announced_min;
    head[READINESS + 1] = readiness->announced_max;
    head[READINESS + 2] = readiness->lacking_count;
    memcpy(head + READINESS + 3, readiness->lacking, sizeof(readiness->lacking));
    head[UP_DIGESTS] = 0;
    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++)
        if (up->digests.known[unit]) {
            head[UP_DIGESTS]++;
            head[count++] = unit;
            head[count++] = up->digests.values[unit];
        }
    for (unsigned rank = 0; rank < round->plan->layout.worker_count; rank++)
        if (busy_ns[rank]) {
            head[count++] = rank;
            head[count++] = busy_ns[rank];
        }
    return count;
}

/* Merge into @digests. -EBADMSG: a unit is out of range, or the message has too few words for its
 * count. */
static int merge_digests(struct round *round, unsigned count, struct unit_digests *digests)
{
    const uint64_t *row = round->words + UP_WORDS;

    if (round->words[UP_DIGESTS] > (count - UP_WORDS) / UP_ROW)
        return -EBADMSG;
    for (uint64_t i = 0; i < round->words[UP_DIGESTS]; i++, row += UP_ROW) {
        if (row[0] >= STEP_RECORD_UNITS_MAX)
            return -EBADMSG;
        if (digests->known[row[0]] && digests->values[row[0]] != row[1])
            round->dispute = DISPUTE_STATE;
        digests->known[row[0]] = true;
        digests->values[row[0]] = row[1];
    }
    return 0;
}

/* Times come after the digests. -EBADMSG: a rank is out of range. */
static int unpack_times(const struct round *round, unsigned count, uint64_t *busy_ns)
{
    const uint64_t *row = round->words + UP_WORDS + UP_ROW * round->words[UP_DIGESTS];

    if ((count - UP_WORDS) % UP_ROW)
        return -EBADMSG;
    for (; row < round->words + count; row += UP_ROW) {
        if (row[0] >= round->plan->layout.worker_count)
            return -EBADMSG;
        busy_ns[row[0]] = row[1];
    }
    return 0;
}

/* -EBADMSG: a rank is out of range. */
static int unpack_readiness(const struct round *round, struct step_commit_readiness *ret_readiness)
{
    const uint64_t *words = round->words + READINESS;

    ret_readiness->announced_min = words[0];
    ret_readiness->announced_max = words[1];
    ret_readiness->lacking_count = words[2];
    memcpy(ret_readiness->lacking, words + 3, sizeof(ret_readiness->lacking));
    if (words[2] > round->plan->layout.worker_count)
        return -EBADMSG;
    for (uint64_t i = 0; i < MIN(words[2], (uint64_t)STEP_COMMIT_LACKING_MAX); i++)
        if (ret_readiness->lacking[i] >= round->plan->layout.worker_count)
            return -EBADMSG;
    return 0;
}

/* Keep the unable ranks of the newest step that failed. */
static void merge_failed(struct step_commit_up *sum, uint64_t failed_step,
                         const struct checkpoint_writers_unable *unable)
{
    if (failed_step > sum->checkpoint_failed) {
        sum->checkpoint_failed = failed_step;
        sum->unable = *unable;
    } else if (failed_step == sum->checkpoint_failed) {
        checkpoint_writers_merge(&sum->unable, unable);
    }
}

static int merge_child(struct round *round, unsigned child, struct step_commit_up *sum,
                       uint64_t *busy_ns, struct error *error)
{
    AUTO_FREE struct step_record *record = malloc(sizeof(*record));
    struct step_commit_readiness readiness;
    struct checkpoint_writers_unable unable;
    const uint64_t *head = round->words;
    unsigned count;
    int status =
        record ? receive_message(round, child, round->up_tag, UP_WORDS, &count, record) : -ENOMEM;

    if (!status)
        status = unpack_readiness(round, &readiness);
    if (!status)
        status = unpack_unable(round, &unable);
    if (!status)
        status = merge_digests(round, count, &sum->digests);
    if (!status)
        status = unpack_times(round, count, busy_ns);
    if (status)
        return status;
    if (head[0] != sum->data_digest)
        return error_set(
            error, -EILSEQ,
            "node %s reads other training data than node %s: data.path must hold the same files on "
            "every node",
            worker_name(&round->plan->layout, child),
            worker_name(&round->plan->layout, round->rank));
    sum->checkpoint_durable = MIN(sum->checkpoint_durable, head[1]);
    merge_failed(sum, head[2], &unable);
    merge_readiness(&sum->readiness, &readiness);
    if (head[3] > DISPUTE_STATE || head[4] > 1)
        return -EBADMSG;
    sum->checkpoint_busy |= head[4] == 1;
    round->dispute = MAX(round->dispute, (enum dispute_about)head[3]);
    if (!round->dispute && step_record_disputed(&sum->record, record))
        round->dispute = DISPUTE_GRADIENTS;
    return round->dispute ? 0 : step_record_merge(&sum->record, record);
}

/* The rounds after the last step have no times. */
static unsigned slowest_count(const struct round *round)
{
    return round->closing ? 0 : round->plan->layout.stage_count;
}

static unsigned pack_down(const struct round *round, const struct step_commit_down *down)
{
    uint64_t *words = round->words;
    unsigned count = DOWN_WORDS;

    words[0] = down->switch_generation;
    words[1] = down->checkpoint_durable;
    words[2] = down->checkpoint_failed;
    words[3] = down->dispute;
    words[4] = down->checkpoint_busy;
    pack_unable(&down->unable, words);
    for (unsigned stage = 0; stage < slowest_count(round); stage++) {
        words[count++] = down->slowest[stage].rank;
        words[count++] = down->slowest[stage].lane_ns;
        words[count++] = down->slowest[stage].fastest_ns;
    }
    return count;
}

static int unpack_down(const struct round *round, unsigned count, struct step_commit_down *ret_down)
{
    const uint64_t *words = round->words;

    if (count != DOWN_WORDS + DOWN_ROW * slowest_count(round) || words[3] > DISPUTE_STATE ||
        words[4] > 1 || unpack_unable(round, &ret_down->unable))
        return -EBADMSG;
    ret_down->switch_generation = words[0];
    ret_down->checkpoint_durable = words[1];
    ret_down->checkpoint_failed = words[2];
    ret_down->dispute = (enum dispute_about)words[3];
    ret_down->checkpoint_busy = words[4] == 1;
    for (unsigned stage = 0; stage < slowest_count(round); stage++) {
        const uint64_t *row = words + DOWN_WORDS + (size_t)DOWN_ROW * stage;
        if (row[0] >= round->plan->layout.worker_count)
            return -EBADMSG;
        ret_down->slowest[stage] = (struct straggler_stage){(unsigned)row[0], row[1], row[2]};
    }
    return 0;
}

static int send_down(const struct round *round, const struct step_commit_down *down)
{
    unsigned count = pack_down(round, down);
    unsigned first = round->rank * COMMIT_TREE_FAN + 1;

    for (unsigned child = first;
         child < first + COMMIT_TREE_FAN && child < round->plan->layout.worker_count; child++) {
        int status = send_message(round, child, round->down_tag, count, &down->record);
        if (status)
            return status;
    }
    return 0;
}

static int gather(struct round *round, struct step_commit_up *sum, uint64_t *busy_ns,
                  struct error *error)
{
    unsigned first = round->rank * COMMIT_TREE_FAN + 1;

    for (unsigned child = first;
         child < first + COMMIT_TREE_FAN && child < round->plan->layout.worker_count; child++) {
        int status = merge_child(round, child, sum, busy_ns, error);
        if (status)
            return status;
    }
    return 0;
}

static int ask_parent(const struct round *round, const struct step_commit_up *sum,
                      struct step_commit_down *ret_down)
{
    unsigned parent = (round->rank - 1) / COMMIT_TREE_FAN;
    unsigned count = pack_up(round, sum, ret_down->busy_ns);
    int status = send_message(round, parent, round->up_tag, count, &sum->record);

    if (!status)
        status =
            receive_message(round, parent, round->down_tag, DOWN_WORDS, &count, &ret_down->record);
    return status ? status : unpack_down(round, count, ret_down);
}

/* Decide the root's message to all ranks. */
static int conclude(const struct round *round, const struct step_commit_up *sum,
                    const struct step_commit_root *root, struct step_commit_down *ret_down,
                    struct error *error)
{
    ret_down->dispute = round->dispute;
    if (round->dispute) {
        ret_down->record = sum->record;
        return 0;
    }
    int status = root->may_commit ? root->may_commit(root->context) : 0;
    if (status)
        return status;
    if (!round->closing && !step_record_complete(&sum->record))
        return error_set(error, -EBADMSG, "step %" PRIu64 ": the record is incomplete at the root",
                         sum->record.step);
    ret_down->record = sum->record;
    ret_down->switch_generation = root->switch_generation;
    ret_down->checkpoint_durable = sum->checkpoint_durable;
    ret_down->checkpoint_failed = sum->checkpoint_failed;
    ret_down->unable = sum->unable;
    ret_down->checkpoint_busy = sum->checkpoint_busy;
    ret_down->readiness = sum->readiness;
    if (!round->closing)
        straggler_slowest(&round->plan->layout, ret_down->busy_ns, ret_down->slowest);
    return 0;
}

int step_commit_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                    const struct step_commit_up *mine, const struct step_commit_root *root,
                    struct step_commit_down *ret_down, struct error *error)
{
    struct round round = {
        .mesh = mesh,
        .plan = plan,
        .rank = rank,
        .closing = closing,
        .up_tag = tag_make(closing ? TAG_CLOSING : TAG_HOLD, mine->record.step, 0),
        .down_tag = tag_make(closing ? TAG_CLOSED : TAG_COMMIT, mine->record.step, 0),
        .room = MAX(UP_WORDS + UP_ROW * (STEP_RECORD_UNITS_MAX + plan->layout.worker_count),
                    DOWN_WORDS + DOWN_ROW * plan->layout.stage_count),
    };
    AUTO_FREE uint64_t *words = calloc(round.room, sizeof(*words));
    AUTO_FREE struct step_commit_up *sum = malloc(sizeof(*sum));
    int status;

    ret_down->dispute = DISPUTE_NOTHING;
    if (!sum || !words)
        return -ENOMEM;
    round.words = words;
    *sum = *mine;
    memset(ret_down->busy_ns, 0, sizeof(ret_down->busy_ns));
    memset(ret_down->slowest, 0, sizeof(ret_down->slowest));
    ret_down->busy_ns[rank] = mine->busy_ns;
    status = gather(&round, sum, ret_down->busy_ns, error);
    if (!status)
        status = rank == 0 ? conclude(&round, sum, root, ret_down, error)
                           : ask_parent(&round, sum, ret_down);
    if (!status)
        status = send_down(&round, ret_down);
    ret_down->dispute = MAX(ret_down->dispute, round.dispute);
    return !status && ret_down->dispute ? STEP_COMMIT_DISPUTED : status;
}
