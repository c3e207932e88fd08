#include "protocol/division_round.h"

#include <errno.h>
#include <stdlib.h>

#include "base/words.h"

#define FACT_WORDS_MAX 6 /* of a lane */

/* ---- up ---- */

static int pack_facts(const struct division_round *round, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};
    unsigned count = 0, ranks = round->rank_count;
    int status = 0;

    for (unsigned rank = 0; rank < ranks; rank++)
        count += round->facts[rank].lanes != NULL;
    words_put(&writer, count);
    for (unsigned rank = 0; rank < ranks && !status; rank++) {
        if (!round->facts[rank].lanes)
            continue;
        words_put(&writer, rank);
        status = step_facts_pack(&round->facts[rank], round->division.lanes, &writer);
    }
    return writer.status;
}

static int unpack_facts(struct words_reader *reader, struct division_round *round)
{
    unsigned ranks = round->rank_count;
    unsigned count = (unsigned)words_take_below(reader, (uint64_t)ranks + 1);
    int status = reader->status;

    for (unsigned i = 0; i < count && !status; i++) {
        unsigned rank = (unsigned)words_take_below(reader, ranks);
        if (reader->status || round->facts[rank].lanes)
            return -EBADMSG;
        status = step_facts_unpack(reader, round->division.lanes, round->division.micro_batches,
                                   &round->facts[rank]);
    }
    return status;
}

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct division_round *round = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};
    size_t words_max =
        1 + (size_t)round->rank_count * (2 + FACT_WORDS_MAX * (size_t)round->division.lanes);

    (void)child;
    if (size_bytes % 8 || words.count > words_max)
        return -EBADMSG;
    return unpack_facts(&words, round);
}

/* Facts that exceed one message count as none: the ranks of this subtree have nothing then. */
static int pack_part(const void *content, struct bytes *message)
{
    size_t before_bytes = message->size_bytes;
    int status = pack_facts(content, message);

    if (!status && message->size_bytes - before_bytes > TREE_MESSAGE_MAX_BYTES) {
        struct words_writer writer = {.bytes = message};
        message->size_bytes = before_bytes;
        words_put(&writer, 0);
        status = writer.status;
    }
    return status;
}

/* ---- down ---- */

#define LANE_WORDS 5 /* of a division */

static int pack_division(const struct step_division *division, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, division->step);
    for (unsigned lane = 0; division->step && lane < division->lanes; lane++) {
        words_put(&writer, division->owners[lane]);
        words_put(&writer, division->starts[lane]);
        words_put(&writer, division->validated[lane]);
        words_put(&writer, division->heads[lane]);
        words_put(&writer, division->heads[lane] ? division->givers[lane] : 0);
    }
    return writer.status;
}

/* @division is the plan's so far. */
static int unpack_division(struct words_reader *reader, uint64_t step,
                           struct step_division *division)
{
    division->step = words_take(reader);
    if (division->step && division->step != step)
        return -EBADMSG;
    for (unsigned lane = 0; division->step && lane < division->lanes; lane++) {
        division->owners[lane] = (uint16_t)words_take_below(reader, division->replicas);
        division->starts[lane] =
            (unsigned)words_take_below(reader, (uint64_t)division->micro_batches + 1);
        division->validated[lane] = words_take_below(reader, 2) != 0;
        division->heads[lane] = (unsigned)words_take_below(reader, division->micro_batches);
        division->givers[lane] = (uint16_t)words_take_below(reader, division->replicas);
    }
    return reader->status;
}

/* Return whether heads are allowed, and no replica gives two of them, or gets two, or its own. */
static bool are_heads_sound(const struct plan_layout *layout, const struct step_division *division)
{
    bool gives[JOB_DEVICES_MAX] = {0}, gets[JOB_DEVICES_MAX] = {0};

    for (unsigned lane = 0; lane < division->lanes; lane++) {
        unsigned owner = division->owners[lane], giver = division->givers[lane];
        if (!division->heads[lane])
            continue;
        if (layout->lane_micro_batches != division->micro_batches || owner == giver ||
            gives[giver] || gets[owner] || division->starts[lane] >= division->heads[lane])
            return false;
        gives[giver] = gets[owner] = true;
    }
    return true;
}

/* Return whether the division counts on a sum or a loss that this rank does not have. */
static bool counts_on_more(const struct division_round *round)
{
    const struct plan_layout *layout = round->layout;
    const struct step_division *division = &round->division;
    const struct lane_fact *facts = round->facts[round->rank].lanes;
    unsigned stage = round->rank % layout->stage_count;
    unsigned replica = round->rank / layout->stage_count;
    bool trained = layout->stage_first_unit[stage + 1] > round->trained_from;
    bool last = stage == layout->stage_count - 1;

    for (unsigned lane = 0; division->step && lane < division->lanes; lane++) {
        bool begins = step_division_first(division, lane) == replica;
        bool ends = division->owners[lane] == replica;
        if (begins && trained && division->starts[lane] > (facts ? facts[lane].micro_batches : 0))
            return true;
        if (ends && last && division->validated[lane] && !(facts && facts[lane].validated))
            return true;
    }
    return false;
}

static int decide(void *content)
{
    struct division_round *round = content;
    struct step_division *division = &round->division;

    step_division_continue(round->layout, round->trained_from, round->step, division->lanes,
                           division->micro_batches, round->facts, division);
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct division_round *round = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};

    if (size_bytes % 8 || words.count > 1 + LANE_WORDS * (size_t)round->division.lanes)
        return -EBADMSG;
    int status = unpack_division(&words, round->step, &round->division);
    if (!status && round->division.step && !are_heads_sound(round->layout, &round->division))
        status = -EBADMSG;
    return !status && counts_on_more(round) ? -EBADMSG : status;
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct division_round *round = content;
    return pack_division(&round->division, message);
}

/* ---- the round ---- */

int division_round_begin(struct division_round *content, struct tree_round *round,
                         const struct division_question *question, struct step_facts *mine)
{
    static const struct tree_question messages = {take_part, pack_part, decide, take_answer,
                                                  pack_answer};
    const struct plan_layout *layout = question->layout;

    *content = (struct division_round){
        .layout = layout,
        .rank = question->rank,
        .step = question->step,
        .trained_from = question->trained_from,
        .rank_count = layout->worker_count,
        .facts = calloc(layout->worker_count, sizeof(*content->facts)),
    };
    step_division_plan(layout, question->lanes, question->micro_batches, &content->division);
    tree_round_begin(round, &messages, content, layout, question->rank);
    if (!content->facts)
        return -ENOMEM;
    content->facts[question->rank] = *mine;
    *mine = (struct step_facts){0};
    return 0;
}

void division_round_done(struct division_round *content)
{
    for (unsigned rank = 0; content->facts && rank < content->rank_count; rank++)
        step_facts_done(&content->facts[rank]);
    free(content->facts);
    content->facts = NULL;
}
