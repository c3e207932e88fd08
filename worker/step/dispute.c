#include "worker/step/dispute.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "worker/state/state.h"

#define CLAIM_WORDS 3u /* rank, unit, bits */
#define CLAIMS_MAX  ((size_t)JOB_DEVICES_MAX * STEP_RECORD_UNITS_MAX)

/* The index of a message's tag. */
enum message { UP, DOWN };

/* ---- messages ---- */

#define VERDICT_WORDS 3 /* and a word for each accused rank */

/* The claims of a subtree; room for the claims of all ranks. */
struct claims {
    struct dispute_verdict_claim *list;
    size_t count;
};

static int claims_add(struct claims *claims, const struct dispute_verdict_claim *list, size_t count)
{
    size_t total = claims->count + count;
    struct dispute_verdict_claim *grown = realloc(claims->list, (total + 1) * sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    claims->list = grown;
    memcpy(grown + claims->count, list, count * sizeof(*list));
    claims->count = total;
    return 0;
}

static int pack_claims(const struct claims *claims, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    for (size_t i = 0; i < claims->count; i++) {
        words_put(&writer, claims->list[i].rank);
        words_put(&writer, claims->list[i].unit);
        words_put(&writer, claims->list[i].bits);
    }
    return writer.status;
}

/* Add the claims of a message. -EBADMSG: they name a rank or unit that does not exist. */
static int unpack_claims(struct words_reader *reader, const struct plan_layout *layout,
                         struct claims *claims)
{
    size_t count = reader->count / CLAIM_WORDS;
    AUTO_FREE struct dispute_verdict_claim *list = calloc(count + 1, sizeof(*list));

    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        list[i].rank = (unsigned)words_take_below(reader, layout->worker_count);
        list[i].unit = (unsigned)words_take_below(reader, STEP_RECORD_UNITS_MAX);
        list[i].bits = words_take(reader);
    }
    if (reader->count > 0)
        reader->status = -EBADMSG;
    return reader->status ? reader->status : claims_add(claims, list, count);
}

static int pack_verdict(const struct dispute_verdict *verdict, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, verdict->settled);
    words_put(&writer, verdict->unit);
    words_put(&writer, verdict->holders);
    for (unsigned i = 0; i < verdict->accused_count; i++)
        words_put(&writer, verdict->accused[i]);
    return writer.status;
}

/* -EBADMSG: no rank is accused, or a rank that does not exist. */
static int unpack_verdict(struct words_reader *reader, const struct plan_layout *layout,
                          struct dispute_verdict *ret_verdict)
{
    *ret_verdict = (struct dispute_verdict){0};
    ret_verdict->settled = words_take(reader) != 0;
    ret_verdict->unit = (unsigned)words_take(reader);
    ret_verdict->holders = (unsigned)words_take(reader);
    do
        ret_verdict->accused[ret_verdict->accused_count++] =
            (unsigned)words_take_below(reader, layout->worker_count);
    while (reader->count > 0 && !reader->status);
    return reader->status;
}

static int gather(const struct tree_exchange *place, const struct plan_layout *layout,
                  struct claims *claims)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->child_count; i++) {
        AUTO_FREE void *message = NULL;
        struct words_reader words;
        status = tree_exchange_receive(place, place->first_child + i, UP, CLAIM_WORDS * CLAIMS_MAX,
                                       &message, &words);
        if (!status)
            status = unpack_claims(&words, layout, claims);
    }
    return status;
}

static int send_claims(const struct tree_exchange *place, const struct claims *claims)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_claims(claims, &message);

    return status ? status : tree_exchange_send(place, place->parent, UP, &message);
}

/* Judge the claims of all ranks; runs on the root. */
static int judge(const struct claims *claims, const struct plan_layout *layout,
                 struct dispute_verdict *ret_verdict)
{
    int status =
        dispute_verdict_judge(claims->list, claims->count, layout->worker_count, ret_verdict);

    return status || ret_verdict->accused_count > 0 ? status : -EBADMSG;
}

static int send_verdict(const struct tree_exchange *place, const struct dispute_verdict *verdict)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = pack_verdict(verdict, &message);

    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = tree_exchange_send(place, place->first_child + i, DOWN, &message);
    return status;
}

static int receive_verdict(const struct tree_exchange *place, const struct plan_layout *layout,
                           struct dispute_verdict *ret_verdict)
{
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    int status = tree_exchange_receive(place, place->parent, DOWN,
                                       VERDICT_WORDS + layout->worker_count, &message, &words);

    return status ? status : unpack_verdict(&words, layout, ret_verdict);
}

int dispute_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank, uint64_t step,
                const struct dispute_verdict_claim *mine, size_t count,
                struct dispute_verdict *ret_verdict)
{
    struct tree_exchange place;
    struct claims claims = {0};

    tree_exchange_init(&place, mesh, layout, rank, TAG_DISPUTE, step);
    int status = claims_add(&claims, mine, count);
    if (!status)
        status = gather(&place, layout, &claims);
    if (!status && rank == 0)
        status = judge(&claims, layout, ret_verdict);
    else if (!status)
        status = send_claims(&place, &claims);
    free(claims.list);
    if (!status && rank != 0)
        status = receive_verdict(&place, layout, ret_verdict);
    if (!status)
        status = send_verdict(&place, ret_verdict);
    if (!status)
        tree_exchange_await_all(&place);
    return status;
}

/* ---- the outcome for one rank ---- */

/* "node a, slot 0 and node b, slot 1" */
static void name_accused(const struct plan_layout *layout, const struct dispute_verdict *verdict,
                         char *ret_names, size_t size)
{
    size_t used = 0;

    ret_names[0] = '\0';
    for (unsigned i = 0; i < verdict->accused_count && i < 3 && used < size; i++) {
        const struct plan_worker *worker = &layout->workers[verdict->accused[i]];
        used += (size_t)snprintf(ret_names + used, size - used, "%snode %.24s, slot %u",
                                 i ? " and " : "", worker->node, worker->slot);
    }
    if (verdict->accused_count > 3 && used < size)
        snprintf(ret_names + used, size - used, " and %u more", verdict->accused_count - 3);
}

static bool is_accused(const struct dispute_verdict *verdict, unsigned rank)
{
    for (unsigned i = 0; i < verdict->accused_count; i++)
        if (verdict->accused[i] == rank)
            return true;
    return false;
}

static const char *what_differs(enum dispute_about about)
{
    return about == DISPUTE_STATE ? "parameters or moments" : "gradients";
}

static const char *what_follows(enum dispute_about about)
{
    return about == DISPUTE_STATE ? "the newest checkpoint counts" : "it is computed again";
}

int dispute_outcome(const struct plan_layout *layout, unsigned rank, enum dispute_about about,
                    uint64_t step, const struct dispute_verdict *verdict, bool again,
                    struct error *error)
{
    char names[160];
    const char *what = what_differs(about);
    bool certain = verdict->settled || again, goes = certain && is_accused(verdict, rank);
    int status = goes                     ? -ENOTRECOVERABLE
                 : about == DISPUTE_STATE ? -EUCLEAN
                 : certain                ? -ECONNRESET
                                          : -EAGAIN;

    assert(verdict->accused_count > 0);
    name_accused(layout, verdict, names, sizeof(names));
    if (verdict->settled)
        return error_set(error, status,
                         "step %" PRIu64 ": %s: other %s of unit %u than most of its %u holders: "
                         "memory or device is not to be trusted",
                         step, names, what, verdict->unit, verdict->holders);
    if (again)
        return error_set(error, status,
                         "step %" PRIu64 ": %s hold different %s of unit %u again: memory or "
                         "device of one of them is not to be trusted",
                         step, names, what, verdict->unit);
    return error_set(error, status,
                     "step %" PRIu64 ": %s hold different %s of unit %u, nobody can tell which are "
                     "right: %s",
                     step, names, what, verdict->unit, what_follows(about));
}

/* ---- claims from the state ---- */

void dispute_memory_rollback(struct dispute_memory *memory)
{
    memory->gradients_step = 0;
}

static size_t list_claims(const struct state *state, const struct unit_digests *digests,
                          enum dispute_about about, unsigned rank,
                          struct dispute_verdict_claim *claims)
{
    const struct step_record *record = &state->hold;
    size_t count = 0;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++) {
        struct dispute_verdict_claim claim = {rank, unit, digests->values[unit]};
        bool known = digests->known[unit];
        if (about == DISPUTE_GRADIENTS) {
            known = unit < record->unit_count && step_record_is_known(record->unit_squares[unit]);
            memcpy(&claim.bits, &record->unit_squares[unit], sizeof(claim.bits));
        }
        if (known)
            claims[count++] = claim;
    }
    return count;
}

static bool seen_before(const struct state *state, enum dispute_about about, uint64_t step,
                        const struct dispute_memory *memory)
{
    uint64_t interval = state->spec->checkpoint.every;

    if (about == DISPUTE_GRADIENTS)
        return memory->gradients_step == step;
    return memory->state_step &&
           (!interval || step <= memory->state_step + MAX(interval, (uint64_t)state->unit_count));
}

int dispute_settle(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                   enum dispute_about about, uint64_t step, struct state *state,
                   const struct unit_digests *digests, struct dispute_memory *memory,
                   struct error *error)
{
    bool again = seen_before(state, about, step, memory);
    AUTO_FREE struct dispute_verdict *verdict = malloc(sizeof(*verdict));
    AUTO_FREE struct dispute_verdict_claim *claims = calloc(STEP_RECORD_UNITS_MAX, sizeof(*claims));

    state->holds = false;
    int status = verdict && claims
                     ? dispute_run(mesh, layout, rank, step, claims,
                                   list_claims(state, digests, about, rank, claims), verdict)
                     : -ENOMEM;
    if (status && about == DISPUTE_STATE)
        return error_set(error, -EUCLEAN,
                         "step %" PRIu64 ": replicas hold different parameters or moments, and the "
                         "links broke before it was known who: %s",
                         step, what_follows(about));
    if (status)
        return status;
    if (!verdict->settled && about == DISPUTE_STATE)
        memory->state_step = step;
    else if (!verdict->settled)
        memory->gradients_step = step;
    return dispute_outcome(layout, rank, about, step, verdict, again, error);
}
