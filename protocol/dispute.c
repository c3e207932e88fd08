#include "protocol/dispute.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"

#define CLAIM_WORDS 3u /* rank, unit, bits */
#define CLAIMS_MAX  ((size_t)JOB_DEVICES_MAX * STEP_RECORD_UNITS_MAX)

/* ---- messages ---- */

#define VERDICT_WORDS 3 /* and a word for each accused rank */

static int claims_add(struct dispute_claims *claims, const struct dispute_verdict_claim *list,
                      size_t count)
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

static int pack_claims(const struct dispute_claims *claims, struct bytes *message)
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
                         struct dispute_claims *claims)
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

/* ---- the round ---- */

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct dispute *dispute = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};

    (void)child;
    if (size_bytes % 8 || words.count > CLAIM_WORDS * CLAIMS_MAX)
        return -EBADMSG;
    return unpack_claims(&words, dispute->layout, &dispute->claims);
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct dispute *dispute = content;
    return pack_claims(&dispute->claims, message);
}

/* Judge the claims of all ranks. */
static int decide(void *content)
{
    struct dispute *dispute = content;
    int status = dispute_verdict_judge(dispute->claims.list, dispute->claims.count,
                                       dispute->layout->worker_count, &dispute->verdict);

    return status || dispute->verdict.accused_count > 0 ? status : -EBADMSG;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct dispute *dispute = content;
    struct words_reader words = {.at = data, .count = size_bytes / 8};

    if (size_bytes % 8 || words.count > VERDICT_WORDS + dispute->layout->worker_count)
        return -EBADMSG;
    return unpack_verdict(&words, dispute->layout, &dispute->verdict);
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct dispute *dispute = content;
    return pack_verdict(&dispute->verdict, message);
}

int dispute_begin(struct dispute *dispute, struct tree_round *round,
                  const struct plan_layout *layout, unsigned rank,
                  const struct dispute_verdict_claim *mine, size_t count)
{
    static const struct tree_question question = {take_part, pack_part, decide, take_answer,
                                                  pack_answer};

    *dispute = (struct dispute){.layout = layout};
    tree_round_begin(round, &question, dispute, layout, rank);
    return claims_add(&dispute->claims, mine, count);
}

void dispute_done(struct dispute *dispute)
{
    free(dispute->claims.list);
    dispute->claims = (struct dispute_claims){0};
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

const char *dispute_what_follows(enum dispute_about about)
{
    return about == DISPUTE_STATE ? "going back to the newest checkpoint" : "it is computed again";
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
                     step, names, what, verdict->unit, dispute_what_follows(about));
}

/* ---- memory of disputes ---- */

void dispute_memory_rollback(struct dispute_memory *memory)
{
    memory->gradients_step = 0;
}

bool dispute_memory_has_seen(const struct dispute_memory *memory, enum dispute_about about,
                             uint64_t step, uint64_t interval, unsigned unit_count)
{
    if (about == DISPUTE_GRADIENTS)
        return memory->gradients_step == step;
    return memory->state_step &&
           (!interval || step <= memory->state_step + MAX(interval, (uint64_t)unit_count));
}

void dispute_memory_note(struct dispute_memory *memory, enum dispute_about about, uint64_t step,
                         const struct dispute_verdict *verdict)
{
    if (verdict->settled)
        return;
    if (about == DISPUTE_STATE)
        memory->state_step = step;
    else
        memory->gradients_step = step;
}

/* ---- claims ---- */

size_t dispute_list_claims(const struct step_record *record, const struct unit_digests *digests,
                           enum dispute_about about, unsigned rank,
                           struct dispute_verdict_claim *ret_claims)
{
    size_t count = 0;

    for (unsigned unit = 0; unit < STEP_RECORD_UNITS_MAX; unit++) {
        struct dispute_verdict_claim claim = {rank, unit, digests->values[unit]};
        bool known = digests->known[unit];
        if (about == DISPUTE_GRADIENTS) {
            known = unit < record->unit_count && step_record_is_known(record->unit_squares[unit]);
            memcpy(&claim.bits, &record->unit_squares[unit], sizeof(claim.bits));
        }
        if (known)
            ret_claims[count++] = claim;
    }
    return count;
}
