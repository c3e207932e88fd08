#include "worker/session/data_agreement.h"

#include <errno.h>

#include "worker/step/tree_exchange.h"

/* The outcome of the vote, on all ranks. */
struct outcome {
    bool known;      /* some worker has state: the data behind that state counts */
    uint64_t digest; /* of the data that counts; 0: no majority */
    bool unanimous;
};

/* The index of a message's tag. */
enum message { UP, DOWN };

void data_votes_init(struct data_votes *votes, uint64_t digest, uint64_t known)
{
    *votes = (struct data_votes){.known = known, .count = 1, .ranks = 1};
    votes->list[0].digest = digest;
    votes->list[0].ranks = 1;
}

static void count_votes(struct data_votes *sum, uint64_t digest, unsigned ranks)
{
    unsigned place = 0;

    while (place < sum->count && sum->list[place].digest != digest)
        place++;
    if (place == DATA_VOTES_MAX)
        return;
    if (place == sum->count)
        sum->list[sum->count++].digest = digest;
    sum->list[place].ranks += ranks;
}

int data_votes_merge(struct data_votes *sum, const struct data_votes *part)
{
    if (sum->known && part->known && sum->known != part->known)
        return -EBADMSG;
    sum->known = sum->known ? sum->known : part->known;
    sum->ranks += part->ranks;
    for (unsigned i = 0; i < part->count; i++)
        count_votes(sum, part->list[i].digest, part->list[i].ranks);
    return 0;
}

uint64_t data_votes_outcome(const struct data_votes *votes)
{
    if (votes->known)
        return votes->known;
    for (unsigned i = 0; i < votes->count; i++)
        if (2 * votes->list[i].ranks > votes->ranks)
            return votes->list[i].digest;
    return 0;
}

/* ---- messages ---- */

#define VOTES_WORDS   (3 + 2 * DATA_VOTES_MAX)
#define OUTCOME_WORDS 3

static int pack_votes(const struct data_votes *votes, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, votes->known);
    words_put(&writer, votes->ranks);
    words_put(&writer, votes->count);
    for (unsigned i = 0; i < DATA_VOTES_MAX; i++) {
        words_put(&writer, votes->list[i].digest);
        words_put(&writer, votes->list[i].ranks);
    }
    return writer.status;
}

static int unpack_votes(struct words_reader *reader, struct data_votes *ret_votes)
{
    *ret_votes = (struct data_votes){0};
    ret_votes->known = words_take(reader);
    ret_votes->ranks = (unsigned)words_take_below(reader, JOB_DEVICES_MAX + 1);
    ret_votes->count = (unsigned)words_take_below(reader, DATA_VOTES_MAX + 1);
    for (unsigned i = 0; i < DATA_VOTES_MAX; i++) {
        ret_votes->list[i].digest = words_take(reader);
        ret_votes->list[i].ranks = (unsigned)words_take_below(reader, JOB_DEVICES_MAX + 1);
    }
    return reader->status;
}

static int pack_outcome(const struct outcome *outcome, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, outcome->known);
    words_put(&writer, outcome->digest);
    words_put(&writer, outcome->unanimous);
    return writer.status;
}

static int unpack_outcome(struct words_reader *reader, struct outcome *ret_outcome)
{
    ret_outcome->known = words_take(reader) != 0;
    ret_outcome->digest = words_take(reader);
    ret_outcome->unanimous = words_take(reader) != 0;
    return reader->status;
}

static int send_votes(const struct tree_exchange *place, const struct data_votes *votes)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_votes(votes, &message);

    return status ? status : tree_exchange_send(place, place->parent, UP, &message);
}

static int receive_votes(const struct tree_exchange *place, unsigned child,
                         struct data_votes *ret_votes)
{
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    int status = tree_exchange_receive(place, child, UP, VOTES_WORDS, &message, &words);

    return status ? status : unpack_votes(&words, ret_votes);
}

static int receive_outcome(const struct tree_exchange *place, struct outcome *ret_outcome)
{
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    int status = tree_exchange_receive(place, place->parent, DOWN, OUTCOME_WORDS, &message, &words);

    return status ? status : unpack_outcome(&words, ret_outcome);
}

static int send_outcome(const struct tree_exchange *place, const struct outcome *outcome)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_outcome(outcome, &message);

    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = tree_exchange_send(place, place->first_child + i, DOWN, &message);
    return status;
}

/* ---- the vote ---- */

static int judge(const struct plan_layout *layout, unsigned rank, uint64_t digest,
                 const struct outcome *outcome, struct error *error)
{
    const char *node = layout->workers[rank].node;

    if (outcome->digest == digest)
        return 0;
    if (outcome->known)
        return error_set(error, -EILSEQ,
                         "the training data on node %s is not what this run was trained on so far: "
                         "data.path must hold the same files on every node, and keep them",
                         node);
    if (outcome->digest)
        return error_set(error, -EILSEQ,
                         "node %s reads other training data than most other nodes: data.path must "
                         "hold the same files on every node",
                         node);
    return error_set(error, -EILSEQ,
                     "the nodes read different training data, and no kind of it is on more than "
                     "half of the slots: data.path must hold the same files on every node");
}

/* Add the votes of this rank's subtree. */
static int gather(const struct tree_exchange *place, struct data_votes *votes)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->child_count; i++) {
        struct data_votes part;
        status = receive_votes(place, place->first_child + i, &part);
        if (!status)
            status = data_votes_merge(votes, &part);
    }
    return status;
}

static void decide(const struct data_votes *votes, struct outcome *ret_outcome)
{
    uint64_t digest = data_votes_outcome(votes);

    *ret_outcome = (struct outcome){
        .known = votes->known != 0,
        .digest = digest,
        .unanimous = votes->count == 1 && votes->list[0].digest == digest,
    };
}

/* Distribute the outcome from the root to all ranks. */
static int agree(const struct tree_exchange *place, const struct data_votes *votes,
                 struct outcome *ret_outcome)
{
    int status = 0;

    decide(votes, ret_outcome);
    if (place->rank) {
        status = send_votes(place, votes);
        if (!status)
            status = receive_outcome(place, ret_outcome);
    }
    return status ? status : send_outcome(place, ret_outcome);
}

int data_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       uint64_t digest, uint64_t known, struct error *error)
{
    struct tree_exchange place;
    struct data_votes votes;
    struct outcome outcome;

    tree_exchange_init(&place, mesh, layout, rank, TAG_DATA, 0);
    data_votes_init(&votes, digest, known);
    int status = gather(&place, &votes);
    if (!status)
        status = agree(&place, &votes, &outcome);
    if (status)
        return status;
    if (!outcome.unanimous)
        tree_exchange_await_all(&place);
    return judge(layout, rank, digest, &outcome, error);
}
