#include "worker/data_agreement.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "worker/tags.h"

/* Up: known, ranks, count, then (digest, ranks) of each kind. */
#define UP_HEAD  3u
#define UP_WORDS (UP_HEAD + 2 * DATA_VOTES_MAX)

enum { DOWN_KNOWN, DOWN_OUTCOME, DOWN_UNANIMOUS, DOWN_WORDS };

/* The index of a message's tag. */
enum message { UP, DOWN, HEARD, ALL_HEARD };

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

static int send_words(struct mesh *mesh, unsigned peer, enum message index, const uint64_t *words,
                      unsigned count)
{
    uint8_t message[8 * UP_WORDS];

    for (unsigned i = 0; i < count; i++)
        bytes_put_u64(message + 8 * i, words[i]);
    return mesh_send(mesh, peer, tag_make(TAG_DATA, 0, index), message, 8 * (size_t)count, NULL);
}

static int receive_words(struct mesh *mesh, unsigned peer, enum message index, uint64_t *ret_words,
                         unsigned count)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(mesh, peer, tag_make(TAG_DATA, 0, index), UINT64_MAX, &message,
                                  &size_bytes);

    if (!status && size_bytes != 8 * (size_t)count)
        status = -EBADMSG;
    for (unsigned i = 0; !status && i < count; i++)
        ret_words[i] = bytes_get_u64((const uint8_t *)message + 8 * (size_t)i);
    return status;
}

static int send_up(struct mesh *mesh, unsigned parent, const struct data_votes *votes)
{
    uint64_t words[UP_WORDS] = {votes->known, votes->ranks, votes->count};

    for (unsigned i = 0; i < votes->count; i++) {
        words[UP_HEAD + 2 * i] = votes->list[i].digest;
        words[UP_HEAD + 2 * i + 1] = votes->list[i].ranks;
    }
    return send_words(mesh, parent, UP, words, UP_WORDS);
}

static int receive_up(struct mesh *mesh, unsigned child, struct data_votes *ret_votes)
{
    uint64_t words[UP_WORDS];
    int status = receive_words(mesh, child, UP, words, UP_WORDS);

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

static int judge(const struct plan *plan, unsigned rank, uint64_t digest, const uint64_t *down,
                 struct error *error)
{
    const char *node = plan->workers[rank].node;
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

/* One rank's neighbours in the tree. */
struct place {
    struct mesh *mesh;
    unsigned rank, first, children;
};

/* What all below this rank have, and it. */
static int gather(const struct place *place, struct data_votes *votes)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->children; i++) {
        struct data_votes part;
        status = receive_up(place->mesh, place->first + i, &part);
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

/* The outcome, from the root to all. */
static int spread(const struct place *place, const struct data_votes *votes, uint64_t *ret_down)
{
    int status = 0;

    decide(votes, ret_down);
    if (place->rank) {
        unsigned parent = plan_tree_parent(place->rank);
        status = send_up(place->mesh, parent, votes);
        if (!status)
            status = receive_words(place->mesh, parent, DOWN, ret_down, DOWN_WORDS);
    }
    for (unsigned i = 0; !status && i < place->children; i++)
        status = send_words(place->mesh, place->first + i, DOWN, ret_down, DOWN_WORDS);
    return status;
}

/*
 * All know the outcome: said up the tree, and down again. A link that breaks now is no news, for
 * somebody is about to go; it ends the waiting.
 */
static void await_all(const struct place *place)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->children; i++)
        status = receive_words(place->mesh, place->first + i, HEARD, NULL, 0);
    if (!status && place->rank) {
        unsigned parent = plan_tree_parent(place->rank);
        status = send_words(place->mesh, parent, HEARD, NULL, 0);
        if (!status)
            status = receive_words(place->mesh, parent, ALL_HEARD, NULL, 0);
    }
    for (unsigned i = 0; !status && i < place->children; i++)
        status = send_words(place->mesh, place->first + i, ALL_HEARD, NULL, 0);
}

int data_agreement_run(struct mesh *mesh, const struct plan *plan, unsigned rank, uint64_t digest,
                       uint64_t known, struct error *error)
{
    struct place place = {.mesh = mesh, .rank = rank};
    struct data_votes votes;
    uint64_t down[DOWN_WORDS];

    place.children = plan_tree_children(plan, rank, &place.first);
    data_votes_init(&votes, digest, known);
    int status = gather(&place, &votes);
    if (!status)
        status = spread(&place, &votes, down);
    if (status)
        return status;
    if (!down[DOWN_UNANIMOUS])
        await_all(&place);
    return judge(plan, rank, digest, down, error);
}
