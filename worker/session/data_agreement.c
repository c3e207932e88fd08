#include "worker/session/data_agreement.h"

#include <errno.h>

#include "worker/step/tree_exchange.h"

/* Up: known, ranks, count, then (digest, ranks) for each digest. */
#define UP_HEAD  3u
#define UP_WORDS (UP_HEAD + 2 * DATA_VOTES_MAX)

enum { DOWN_KNOWN, DOWN_OUTCOME, DOWN_UNANIMOUS, DOWN_WORDS };

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

static int send_up(const struct tree_exchange *place, const struct data_votes *votes)
{
    uint64_t words[UP_WORDS] = {votes->known, votes->ranks, votes->count};

    for (unsigned i = 0; i < votes->count; i++) {
        words[UP_HEAD + 2 * i] = votes->list[i].digest;
        words[UP_HEAD + 2 * i + 1] = votes->list[i].ranks;
    }
    return tree_exchange_send(place, place->parent, UP, words, UP_WORDS);
}

static int receive_up(const struct tree_exchange *place, unsigned child,
                      struct data_votes *ret_votes)
{
    uint64_t words[UP_WORDS];
    int status = tree_exchange_receive(place, child, UP, words, UP_WORDS);

    if (!status && (words[1] > JOB_DEVICES_MAX || words[2] > DATA_VOTES_MAX))
        status = -EBADMSG;
    if (status)
        return status;
    *ret_votes = (struct data_votes){
        .known = words[0], .ranks = (unsigned)words[1], .count = (unsigned)words[2]};
    for (unsigned i = 0; i < ret_votes->count; i++) {
        ret_votes->list[i].digest = words[UP_HEAD + 2 * i];
        ret_votes->list[i].ranks =
            (unsigned)MIN(words[UP_HEAD + 2 * i + 1], (uint64_t)JOB_DEVICES_MAX);
    }
    return 0;
}

/* ---- the vote ---- */

static int judge(const struct plan_layout *layout, unsigned rank, uint64_t digest,
                 const uint64_t *down, struct error *error)
{
    const char *node = layout->workers[rank].node;
    uint64_t outcome = down[DOWN_OUTCOME];

    if (outcome == digest)
        return 0;
    if (down[DOWN_KNOWN])
        return error_set(error, -EILSEQ,
                         "the training data on node %s is not what this run was trained on so far: "
                         "data.path must hold the same files on every node, and keep them",
                         node);
    if (outcome)
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
        status = receive_up(place, place->first_child + i, &part);
        if (!status)
            status = data_votes_merge(votes, &part);
    }
    return status;
}

static void decide(const struct data_votes *votes, uint64_t *ret_down)
{
    ret_down[DOWN_KNOWN] = votes->known;
    ret_down[DOWN_OUTCOME] = data_votes_outcome(votes);
    ret_down[DOWN_UNANIMOUS] = votes->count == 1 && votes->list[0].digest == ret_down[DOWN_OUTCOME];
}

/* Distribute the outcome from the root to all ranks. */
static int spread(const struct tree_exchange *place, const struct data_votes *votes,
                  uint64_t *ret_down)
{
    int status = 0;

    decide(votes, ret_down);
    if (place->rank) {
        status = send_up(place, votes);
        if (!status)
            status = tree_exchange_receive(place, place->parent, DOWN, ret_down, DOWN_WORDS);
    }
    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = tree_exchange_send(place, place->first_child + i, DOWN, ret_down, DOWN_WORDS);
    return status;
}

int data_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       uint64_t digest, uint64_t known, struct error *error)
{
    struct tree_exchange place;
    struct data_votes votes;
    uint64_t down[DOWN_WORDS];

    tree_exchange_init(&place, mesh, layout, rank, TAG_DATA, 0);
    data_votes_init(&votes, digest, known);
    int status = gather(&place, &votes);
    if (!status)
        status = spread(&place, &votes, down);
    if (status)
        return status;
    if (!down[DOWN_UNANIMOUS])
        tree_exchange_await_all(&place);
    return judge(layout, rank, digest, down, error);
}
