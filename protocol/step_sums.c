#include "protocol/step_sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/step/step_record.h"

void step_sums_done(struct step_sums *sums)
{
    free(sums->list);
    free(sums->losses);
    *sums = (struct step_sums){0};
}

int step_sums_add(struct step_sums *sums, const struct step_sum *sum)
{
    if (sums->count == sums->room) {
        unsigned room = 2 * sums->room + 16;
        struct step_sum *grown = realloc(sums->list, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        sums->list = grown;
        sums->room = room;
    }
    sums->list[sums->count++] = *sum;
    return 0;
}

int step_sums_make_losses(struct step_sums *sums, unsigned lanes)
{
    if (sums->losses)
        return 0;
    sums->losses = calloc(lanes, sizeof(*sums->losses));
    for (unsigned lane = 0; sums->losses && lane < lanes; lane++)
        sums->losses[lane].validation = step_record_unknown();
    return sums->losses ? 0 : -ENOMEM;
}

/* ---- messages ---- */

static void put_double(struct words_writer *writer, double value)
{
    uint64_t word;

    memcpy(&word, &value, sizeof(word));
    words_put(writer, word);
}

static double take_double(struct words_reader *reader)
{
    uint64_t word = words_take(reader);
    double value;

    memcpy(&value, &word, sizeof(value));
    return value;
}

int step_sums_pack(const struct step_sums *sums, unsigned lanes, struct words_writer *writer)
{
    words_put(writer, sums->count);
    for (unsigned i = 0; i < sums->count; i++) {
        const struct step_sum *sum = &sums->list[i];
        words_put(writer, sum->unit);
        words_put(writer, sum->span.first);
        words_put(writer, sum->span.count);
        words_put(writer, sum->micro_batches);
    }
    words_put(writer, sums->losses ? lanes : 0);
    for (unsigned lane = 0; sums->losses && lane < lanes; lane++) {
        words_put(writer, sums->losses[lane].count);
        put_double(writer, sums->losses[lane].training);
        put_double(writer, sums->losses[lane].validation);
    }
    return writer->status;
}

static int unpack_sum(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                      unsigned units, struct step_sum *ret_sum)
{
    ret_sum->unit = (unsigned)words_take_below(reader, units);
    ret_sum->span.first = (unsigned)words_take_below(reader, lanes);
    ret_sum->span.count =
        (unsigned)words_take_below(reader, (uint64_t)lanes - ret_sum->span.first + 1);
    ret_sum->micro_batches = (unsigned)words_take_below(reader, (uint64_t)micro_batches + 1);
    bool partial = ret_sum->micro_batches < micro_batches;
    if (!ret_sum->span.count || !ret_sum->micro_batches || (partial && ret_sum->span.count > 1))
        reader->status = -EBADMSG;
    return reader->status;
}

static void merge(struct step_losses *known, const struct step_losses *losses)
{
    if (losses->count > known->count) {
        known->count = losses->count;
        known->training = losses->training;
    }
    if (step_record_is_known(losses->validation))
        known->validation = losses->validation;
}

void step_sums_merge_losses(struct step_sums *sums, const struct step_sums *other, unsigned lanes)
{
    for (unsigned lane = 0; lane < lanes; lane++)
        merge(&sums->losses[lane], &other->losses[lane]);
}

static int unpack_losses(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                         struct step_sums *sums)
{
    int status = step_sums_make_losses(sums, lanes);

    for (unsigned lane = 0; !status && lane < lanes; lane++) {
        struct step_losses losses;
        losses.count = (unsigned)words_take_below(reader, (uint64_t)micro_batches + 1);
        losses.training = take_double(reader);
        losses.validation = take_double(reader);
        status = reader->status;
        if (!status)
            merge(&sums->losses[lane], &losses);
    }
    return status;
}

int step_sums_unpack(struct words_reader *reader, unsigned lanes, unsigned micro_batches,
                     unsigned units, unsigned source, struct step_sums *sums)
{
    uint64_t count = words_take_below(reader, (uint64_t)units * lanes + 1);
    int status = reader->status;

    for (uint64_t i = 0; i < count && !status; i++) {
        struct step_sum sum = {.source = source, .offered = true};
        status = unpack_sum(reader, lanes, micro_batches, units, &sum);
        if (!status)
            status = step_sums_add(sums, &sum);
    }
    uint64_t losses = status ? 0 : words_take_below(reader, (uint64_t)lanes + 1);
    if (losses && losses != lanes)
        return -EBADMSG;
    if (losses)
        status = unpack_losses(reader, lanes, micro_batches, sums);
    return status ? status : reader->status;
}

/* ---- choosing ---- */

/* By unit; in a unit the sum that is chosen first. */
static int compare(const void *a, const void *b)
{
    const struct step_sum *one = a, *other = b;

    if (one->unit != other->unit)
        return one->unit < other->unit ? -1 : 1;
    if (one->micro_batches != other->micro_batches)
        return one->micro_batches > other->micro_batches ? -1 : 1;
    if (one->span.count != other->span.count)
        return one->span.count > other->span.count ? -1 : 1;
    if (one->offered != other->offered)
        return one->offered ? 1 : -1;
    if (one->source != other->source)
        return one->source < other->source ? -1 : 1;
    return (one->span.first > other->span.first) - (one->span.first < other->span.first);
}

static bool is_eligible(const struct step_sum *sum, const struct step_division *division,
                        unsigned replica)
{
    return !division ||
           step_division_goes_on_with(division, sum->span, sum->micro_batches, replica);
}

/* Take the lanes of @sum; false if one of them is taken. */
static bool take_lanes(bool *taken, const struct lane_tree_span *span)
{
    for (unsigned i = 0; i < span->count; i++)
        if (taken[span->first + i])
            return false;
    memset(taken + span->first, true, span->count);
    return true;
}

void step_sums_choose(struct step_sums *sums, const struct step_division *division,
                      unsigned replica)
{
    bool taken[LANE_TREE_LANES_MAX];
    unsigned chosen = 0;

    if (sums->count > 0)
        qsort(sums->list, sums->count, sizeof(*sums->list), compare);
    for (unsigned i = 0; i < sums->count; i++) {
        struct step_sum *sum = &sums->list[i];
        if (i == 0 || sum->unit != sums->list[i - 1].unit) {
            memset(taken, false, sizeof(taken));
            chosen = 0;
        }
        sum->chosen = chosen < STEP_SUMS_UNIT_MAX && is_eligible(sum, division, replica) &&
                      take_lanes(taken, &sum->span);
        chosen += sum->chosen;
    }
}

/* Reduce each lane's fact to the chosen sums of @unit; the list is sorted. */
static void count_unit(const struct step_sums *sums, unsigned unit, unsigned lanes,
                       struct lane_fact *facts)
{
    unsigned counts[LANE_TREE_LANES_MAX] = {0}, index = 0;

    while (index < sums->count && sums->list[index].unit < unit)
        index++;
    for (; index < sums->count && sums->list[index].unit == unit; index++) {
        const struct step_sum *sum = &sums->list[index];
        for (unsigned i = 0; sum->chosen && i < sum->span.count; i++) {
            struct lane_fact *fact = &facts[sum->span.first + i];
            counts[sum->span.first + i] = sum->micro_batches;
            if (sum->span.count > fact->span.count)
                fact->span = sum->span;
            fact->copied = fact->copied || sum->copied;
            fact->offered = fact->offered || sum->offered;
        }
    }
    for (unsigned lane = 0; lane < lanes; lane++) {
        facts[lane].micro_batches = MIN(facts[lane].micro_batches, counts[lane]);
        facts[lane].furthest = MAX(facts[lane].furthest, counts[lane]);
    }
}

/* A lane of which this rank has anything else is no copy. */
static void mark_others(const struct step_sums *sums, struct lane_fact *facts)
{
    for (unsigned k = 0; k < sums->count; k++)
        for (unsigned i = 0; !sums->list[k].copied && i < sums->list[k].span.count; i++)
            facts[sums->list[k].span.first + i].copied = false;
}

/* State the facts about the chosen sums. */
static void state_facts(const struct step_sums *sums, const struct step_sums_stage *stage,
                        unsigned lanes, unsigned micro_batches, struct lane_fact *facts)
{
    const struct step_losses *losses = stage->last ? sums->losses : NULL;

    for (unsigned lane = 0; lane < lanes; lane++) {
        unsigned counted = losses ? losses[lane].count : 0;
        facts[lane].micro_batches = stage->last ? counted : micro_batches;
        facts[lane].furthest = counted;
        facts[lane].validated = losses && step_record_is_known(losses[lane].validation);
    }
    for (unsigned unit = stage->first_unit; unit < stage->end_unit; unit++)
        count_unit(sums, unit, lanes, facts);
    mark_others(sums, facts);
}

int step_sums_facts(struct step_sums *sums, const struct step_sums_stage *stage, unsigned lanes,
                    unsigned micro_batches, struct step_facts *ret_facts)
{
    *ret_facts = (struct step_facts){0};
    if (!sums->count && !(stage->last && sums->losses))
        return 0;
    struct lane_fact *facts = calloc(lanes, sizeof(*facts));
    if (!facts)
        return -ENOMEM;
    step_sums_choose(sums, NULL, 0);
    state_facts(sums, stage, lanes, micro_batches, facts);
    ret_facts->lanes = facts;
    return 0;
}

bool step_sums_suffice(const struct step_sums *sums, const struct step_sums_stage *stage,
                       const struct step_division *division, unsigned replica)
{
    struct lane_fact facts[LANE_TREE_LANES_MAX] = {0};

    state_facts(sums, stage, division->lanes, division->micro_batches, facts);
    for (unsigned lane = 0; lane < division->lanes; lane++) {
        bool begins = step_division_first(division, lane) == replica;
        bool ends = division->owners[lane] == replica;
        if (begins && stage->first_unit < stage->end_unit &&
            facts[lane].micro_batches < division->starts[lane])
            return false;
        if (ends && stage->last && division->validated[lane] && !facts[lane].validated)
            return false;
    }
    return true;
}

unsigned step_sums_chosen(const struct step_sums *sums, unsigned source)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sums->count; i++)
        count += sums->list[i].chosen && sums->list[i].source == source;
    return count;
}
