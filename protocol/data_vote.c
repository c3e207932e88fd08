#include "protocol/data_vote.h"

#include <errno.h>

#include "base/words.h"

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

static int pack_outcome(const struct data_vote_outcome *outcome, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, outcome->known);
    words_put(&writer, outcome->digest);
    words_put(&writer, outcome->unanimous);
    return writer.status;
}

static int unpack_outcome(struct words_reader *reader, struct data_vote_outcome *ret_outcome)
{
    ret_outcome->known = words_take(reader) != 0;
    ret_outcome->digest = words_take(reader);
    ret_outcome->unanimous = words_take(reader) != 0;
    return reader->status;
}

/* ---- the round ---- */

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct data_vote *vote = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};
    struct data_votes part;

    (void)child;
    int status = size_bytes == 8 * VOTES_WORDS ? unpack_votes(&words, &part) : -EBADMSG;
    return status ? status : data_votes_merge(&vote->votes, &part);
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct data_vote *vote = content;
    return pack_votes(&vote->votes, message);
}

static int decide(void *content)
{
    struct data_vote *vote = content;
    const struct data_votes *votes = &vote->votes;
    uint64_t digest = data_votes_outcome(votes);

    vote->outcome = (struct data_vote_outcome){
        .known = votes->known != 0,
        .digest = digest,
        .unanimous = votes->count == 1 && votes->list[0].digest == digest,
    };
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct data_vote *vote = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};

    return size_bytes == 8 * OUTCOME_WORDS ? unpack_outcome(&words, &vote->outcome) : -EBADMSG;
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct data_vote *vote = content;
    return pack_outcome(&vote->outcome, message);
}

void data_vote_begin(struct data_vote *vote, struct tree_round *round,
                     const struct plan_layout *layout, unsigned rank, uint64_t digest,
                     uint64_t known)
{
    static const struct tree_question question = {take_part, pack_part, decide, take_answer,
                                                  pack_answer};

    *vote = (struct data_vote){0};
    data_votes_init(&vote->votes, digest, known);
    tree_round_begin(round, &question, vote, layout, rank);
}

int data_vote_judge(const struct data_vote_outcome *outcome, const char *node, uint64_t digest,
                    struct error *error)
{
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
