#include "protocol/algorithm_vote.h"

#include <errno.h>

#include "base/words.h"
#include "elastic/job/job_elasticity.h"

/* More than all workers of a job together. */
#define WEIGHT_TRAINED ((uint64_t)JOB_DEVICES_MAX + 1)
#define WEIGHT_MAX     (WEIGHT_TRAINED * (JOB_DEVICES_MAX + 1))
#define CHOICE_WORDS   3

/* ---- choices ---- */

static void count_choice(struct algorithm_choices *sum, struct algorithm_choice one)
{
    unsigned place = 0;

    while (place < sum->count &&
           (sum->list[place].shape != one.shape || sum->list[place].choice != one.choice))
        place++;
    if (place == ALGORITHM_CHOICES_MAX)
        return;
    if (place == sum->count)
        sum->list[sum->count++] = one;
    else
        sum->list[place].weight += one.weight;
}

/* Return the winning choice for the shape at @place, and whether there was another choice. */
static const struct algorithm_choice *winner_at(const struct algorithm_choices *choices,
                                                unsigned place, bool *ret_disputed)
{
    const struct algorithm_choice *winner = &choices->list[place];

    *ret_disputed = false;
    for (unsigned i = place + 1; i < choices->count; i++) {
        const struct algorithm_choice *other = &choices->list[i];
        if (other->shape != winner->shape)
            continue;
        *ret_disputed = true;
        if (other->weight > winner->weight)
            winner = other;
    }
    return winner;
}

static bool has_shape(const struct algorithm_choices *choices, uint64_t shape)
{
    for (unsigned i = 0; i < choices->count; i++)
        if (choices->list[i].shape == shape)
            return true;
    return false;
}

/* ---- messages ---- */

static int pack(const struct algorithm_choices *choices, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    for (unsigned i = 0; i < choices->count; i++) {
        words_put(&writer, choices->list[i].shape);
        words_put(&writer, choices->list[i].choice);
        words_put(&writer, choices->list[i].weight);
    }
    return writer.status;
}

/* Add the choices of a message to @sum. */
static int unpack(const void *data, size_t size_bytes, struct algorithm_choices *sum)
{
    struct words_reader reader = {.at = data, .count = size_bytes / 8};

    if (size_bytes % (8 * CHOICE_WORDS) || reader.count / CHOICE_WORDS > ALGORITHM_CHOICES_MAX)
        return -EBADMSG;
    while (reader.count > 0 && !reader.status) {
        struct algorithm_choice one;
        one.shape = words_take(&reader);
        one.choice = words_take(&reader);
        one.weight = words_take_below(&reader, WEIGHT_MAX + 1);
        if (!reader.status)
            count_choice(sum, one);
    }
    return reader.status;
}

/* ---- the round ---- */

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct algorithm_vote *vote = content;

    (void)child;
    return unpack(data, size_bytes, &vote->choices);
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct algorithm_vote *vote = content;
    return pack(&vote->choices, message);
}

static int decide(void *content)
{
    struct algorithm_vote *vote = content;

    for (unsigned i = 0; i < vote->choices.count; i++) {
        bool disputed;
        const struct algorithm_choice *winner = winner_at(&vote->choices, i, &disputed);
        if (disputed && !has_shape(&vote->winners, winner->shape))
            vote->winners.list[vote->winners.count++] = *winner;
    }
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct algorithm_vote *vote = content;
    return unpack(data, size_bytes, &vote->winners);
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct algorithm_vote *vote = content;
    return pack(&vote->winners, message);
}

void algorithm_vote_begin(struct algorithm_vote *vote, struct tree_round *round,
                          const struct plan_layout *layout, unsigned rank)
{
    static const struct tree_question question = {take_part, pack_part, decide, take_answer,
                                                  pack_answer};

    vote->choices.count = vote->winners.count = 0;
    tree_round_begin(round, &question, vote, layout, rank);
}

void algorithm_vote_add(struct algorithm_vote *vote, uint64_t shape, uint64_t choice, bool trained)
{
    count_choice(&vote->choices,
                 (struct algorithm_choice){shape, choice, trained ? WEIGHT_TRAINED : 1});
}

bool algorithm_vote_lost(const struct algorithm_vote *vote, uint64_t shape, uint64_t choice)
{
    for (unsigned i = 0; i < vote->winners.count; i++)
        if (vote->winners.list[i].shape == shape)
            return vote->winners.list[i].choice != choice;
    return false;
}
