#include "worker/session/step_agreement.h"

#include <errno.h>
#include <stdlib.h>

#include "elastic/job/job_spec.h"
#include "worker/step/tree_exchange.h"

#define FACT_WORDS_MAX    5                 /* of a lane */
#define MESSAGE_MAX_BYTES ((size_t)1 << 20) /* mesh_send() copies no more */

/* The index of a message's tag. */
enum message { UP, DOWN };

/* Facts of a rank's subtree; at the root of all ranks. */
struct gathering {
    const struct plan_layout *layout;
    unsigned lanes, micro_batches;
    struct step_facts *facts; /* (layout->worker_count,) */
};

static void gathering_done(struct gathering *gathering)
{
    for (unsigned rank = 0; gathering->facts && rank < gathering->layout->worker_count; rank++)
        step_facts_done(&gathering->facts[rank]);
    free(gathering->facts);
}

/* ---- up ---- */

static int pack_facts(const struct gathering *gathering, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};
    unsigned count = 0, ranks = gathering->layout->worker_count;
    int status = 0;

    for (unsigned rank = 0; rank < ranks; rank++)
        count += gathering->facts[rank].lanes != NULL;
    words_put(&writer, count);
    for (unsigned rank = 0; rank < ranks && !status; rank++) {
        if (!gathering->facts[rank].lanes)
            continue;
        words_put(&writer, rank);
        status = step_facts_pack(&gathering->facts[rank], gathering->lanes, &writer);
    }
    return writer.status;
}

static int unpack_facts(struct words_reader *reader, struct gathering *gathering)
{
    unsigned ranks = gathering->layout->worker_count;
    unsigned count = (unsigned)words_take_below(reader, (uint64_t)ranks + 1);
    int status = reader->status;

    for (unsigned i = 0; i < count && !status; i++) {
        unsigned rank = (unsigned)words_take_below(reader, ranks);
        if (reader->status || gathering->facts[rank].lanes)
            return -EBADMSG;
        status = step_facts_unpack(reader, gathering->lanes, gathering->micro_batches,
                                   &gathering->facts[rank]);
    }
    return status;
}

static int receive_facts(const struct tree_exchange *place, unsigned child,
                         struct gathering *gathering)
{
    size_t words_max = 1 + (size_t)gathering->layout->worker_count *
                               (2 + FACT_WORDS_MAX * (size_t)gathering->lanes);
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    int status = tree_exchange_receive(place, child, UP, words_max, &message, &words);

    return status ? status : unpack_facts(&words, gathering);
}

/* Too many facts for one message are none: the step is computed as the plan says. */
static int send_facts(const struct tree_exchange *place, const struct gathering *gathering)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_facts(gathering, &message);

    if (!status && message.size_bytes > MESSAGE_MAX_BYTES) {
        struct words_writer writer = {.bytes = &message};
        message.size_bytes = 0;
        words_put(&writer, 0);
        status = writer.status;
    }
    return status ? status : tree_exchange_send(place, place->parent, UP, &message);
}

/* ---- down ---- */

static int pack_division(const struct step_division *division, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, division->step);
    for (unsigned lane = 0; division->step && lane < division->lanes; lane++) {
        words_put(&writer, division->owners[lane]);
        words_put(&writer, division->starts[lane]);
        words_put(&writer, division->validated[lane]);
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
    }
    return reader->status;
}

static int receive_division(const struct tree_exchange *place, struct step_division *division)
{
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    int status = tree_exchange_receive(place, place->parent, DOWN, 1 + 3 * (size_t)division->lanes,
                                       &message, &words);

    return status ? status : unpack_division(&words, place->step, division);
}

static int send_division(const struct tree_exchange *place, const struct step_division *division)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_division(division, &message);

    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = tree_exchange_send(place, place->first_child + i, DOWN, &message);
    return status;
}

/* ---- the agreement ---- */

static int agree(const struct tree_exchange *place, const struct state *state,
                 struct gathering *gathering, struct step_division *ret_division)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = receive_facts(place, place->first_child + i, gathering);
    if (status)
        return status;
    if (place->rank) {
        step_division_plan(gathering->layout, gathering->lanes, gathering->micro_batches,
                           ret_division);
        status = send_facts(place, gathering);
        if (!status)
            status = receive_division(place, ret_division);
    } else {
        step_division_continue(gathering->layout, state_frozen_units(state), place->step,
                               gathering->lanes, gathering->micro_batches, gathering->facts,
                               ret_division);
    }
    return status ? status : send_division(place, ret_division);
}

/* Whether @division counts on a sum or a loss that this rank does not have. */
static bool counts_on_more(const struct gathering *gathering, unsigned rank, unsigned trained_from,
                           const struct step_division *division)
{
    const struct plan_layout *layout = gathering->layout;
    const struct lane_fact *facts = gathering->facts[rank].lanes;
    unsigned stage = rank % layout->stage_count, replica = rank / layout->stage_count;
    bool trained = layout->stage_first_unit[stage + 1] > trained_from;
    bool last = stage == layout->stage_count - 1;

    for (unsigned lane = 0; division->step && lane < division->lanes; lane++) {
        if (division->owners[lane] != replica)
            continue;
        if (trained && division->starts[lane] > (facts ? facts[lane].micro_batches : 0))
            return true;
        if (last && division->validated[lane] && !(facts && facts[lane].validated))
            return true;
    }
    return false;
}

int step_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       const struct state *state, const struct kept_step *kept,
                       struct step_division *ret_division, struct error *error)
{
    CLEANUP(gathering_done)
    struct gathering gathering = {
        .layout = layout,
        .lanes = state->spec->train.lanes,
        .micro_batches = state->spec->train.micro_batches_per_lane,
        .facts = calloc(layout->worker_count, sizeof(*gathering.facts)),
    };
    struct tree_exchange place;

    if (!gathering.facts || kept_step_facts(kept, layout, rank, &gathering.facts[rank]))
        return error_set(error, -ENOMEM, "no memory to divide a step");
    tree_exchange_init(&place, mesh, layout, rank, TAG_DIVISION, state->applied_step + 1);
    int status = agree(&place, state, &gathering, ret_division);
    if (!status && counts_on_more(&gathering, rank, state_frozen_units(state), ret_division))
        return error_set(error, -EBADMSG,
                         "step %llu was divided by facts that this worker does not have",
                         (unsigned long long)place.step);
    return status ? error_set(error, status,
                              "the links broke while step %llu was divided among replicas",
                              (unsigned long long)place.step)
                  : 0;
}
