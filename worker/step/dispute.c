#include "worker/step/dispute.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "worker/state/state.h"

#define CLAIM_WORDS 3u /* rank, unit, bits */
#define CLAIMS_MAX  ((size_t)JOB_DEVICES_MAX * STEP_RECORD_UNITS_MAX)

/* Down: these words, then the accused ranks. */
enum { DOWN_SETTLED, DOWN_UNIT, DOWN_HOLDERS, DOWN_HEAD };

/* The index of a message's tag. */
enum message { UP, DOWN };

/* ---- messages ---- */

/* Claims as words; room for the claims of all ranks. */
struct claims {
    uint64_t *words;
    size_t count; /* of words */
};

static int claims_add(struct claims *claims, const uint64_t *words, size_t count)
{
    uint64_t *grown = realloc(claims->words, (claims->count + count + 1) * sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    claims->words = grown;
    memcpy(grown + claims->count, words, count * sizeof(*words));
    claims->count += count;
    return 0;
}

static int pack_claims(const struct dispute_verdict_claim *list, size_t count,
                       struct claims *claims)
{
    int status = 0;

    for (size_t i = 0; !status && i < count; i++) {
        const uint64_t words[CLAIM_WORDS] = {list[i].rank, list[i].unit, list[i].bits};
        status = claims_add(claims, words, CLAIM_WORDS);
    }
    return status;
}

static int gather(const struct tree_exchange *place, struct claims *claims)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->child_count; i++) {
        AUTO_FREE uint64_t *words = NULL;
        size_t count = 0;
        status = tree_exchange_receive_some(place, place->first_child + i, UP,
                                            CLAIM_WORDS * CLAIMS_MAX, &words, &count);
        if (!status)
            status = claims_add(claims, words, count);
    }
    return status;
}

/* Check the claims of all ranks and judge them; runs on the root. */
static int judge_words(const struct claims *claims, const struct plan_layout *layout,
                       struct dispute_verdict *ret_verdict)
{
    size_t count = claims->count / CLAIM_WORDS;
    AUTO_FREE struct dispute_verdict_claim *list = calloc(count + 1, sizeof(*list));

    if (!list)
        return -ENOMEM;
    if (claims->count % CLAIM_WORDS)
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *words = claims->words + CLAIM_WORDS * i;
        if (words[0] >= layout->worker_count || words[1] >= STEP_RECORD_UNITS_MAX)
            return -EBADMSG;
        list[i] = (struct dispute_verdict_claim){(unsigned)words[0], (unsigned)words[1], words[2]};
    }
    int status = dispute_verdict_judge(list, count, layout->worker_count, ret_verdict);
    return status || ret_verdict->accused_count > 0 ? status : -EBADMSG;
}

static int send_verdict(const struct tree_exchange *place, const struct dispute_verdict *verdict)
{
    uint64_t words[DOWN_HEAD + JOB_DEVICES_MAX] = {verdict->settled, verdict->unit,
                                                   verdict->holders};
    int status = 0;

    for (unsigned i = 0; i < verdict->accused_count; i++)
        words[DOWN_HEAD + i] = verdict->accused[i];
    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = tree_exchange_send(place, place->first_child + i, DOWN, words,
                                    DOWN_HEAD + verdict->accused_count);
    return status;
}

static int receive_verdict(const struct tree_exchange *place, const struct plan_layout *layout,
                           struct dispute_verdict *ret_verdict)
{
    AUTO_FREE uint64_t *words = NULL;
    size_t count = 0;
    int status = tree_exchange_receive_some(place, place->parent, DOWN,
                                            DOWN_HEAD + layout->worker_count, &words, &count);

    if (!status && count <= DOWN_HEAD)
        status = -EBADMSG;
    if (status)
        return status;
    *ret_verdict = (struct dispute_verdict){.settled = words[DOWN_SETTLED] != 0,
                                            .unit = (unsigned)words[DOWN_UNIT],
                                            .holders = (unsigned)words[DOWN_HOLDERS],
                                            .accused_count = (unsigned)(count - DOWN_HEAD)};
    for (unsigned i = 0; i < ret_verdict->accused_count; i++) {
        if (words[DOWN_HEAD + i] >= layout->worker_count)
            return -EBADMSG;
        ret_verdict->accused[i] = (unsigned)words[DOWN_HEAD + i];
    }
    return 0;
}

int dispute_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank, uint64_t step,
                const struct dispute_verdict_claim *mine, size_t count,
                struct dispute_verdict *ret_verdict)
{
    struct tree_exchange place;
    struct claims claims = {0};

    tree_exchange_init(&place, mesh, layout, rank, TAG_DISPUTE, step);
    int status = pack_claims(mine, count, &claims);
    if (!status)
        status = gather(&place, &claims);
    if (!status && rank == 0)
        status = judge_words(&claims, layout, ret_verdict);
    else if (!status)
        status = tree_exchange_send(&place, place.parent, UP, claims.words, claims.count);
    free(claims.words);
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
