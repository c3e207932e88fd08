/*
 * One post is one NCCL group on the stream and one batch here: the batch's mark is set behind the
 * moves, and every request of the post is the batch. The batch is reused when all of its requests
 * have been waited for, so nothing is allocated after the first steps.
 */
#include "comm/carrier/carrier_nccl.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define NAMED_MAX 4                 /* members named in a text */
#define BLAME_NS  (100 * NS_PER_MS) /* from NCCL's report of a dead peer to the mesh's */

struct batch {
    struct batch *next; /* of the idle ones */
    void *mark;
    unsigned waiting; /* requests that were not waited for */
    bool complete;
    int result;
    char peers[64]; /* for messages: "ranks 1, 2" */
};

struct carrier_nccl {
    struct carrier carrier; /* first */
    struct nccl_clique *clique;
    struct mesh *mesh;
    struct carrier_device device;
    uint64_t move_timeout_ns;
    unsigned communicator;
    unsigned *ranks; /* member -> rank in the generation */
    unsigned member_count;
    struct nccl_move *moves; /* of one post */
    size_t moves_max;
    struct batch *idle;
    struct batch *waited; /* being waited for now */
};

static struct carrier_nccl *nccl_of(struct carrier *carrier)
{
    return (struct carrier_nccl *)carrier;
}

bool carrier_nccl_lost(void *mesh, char ret_reason[NCCL_REASON_SIZE])
{
    struct mesh_fault fault;

    mesh_fault(mesh, &fault);
    snprintf(ret_reason, NCCL_REASON_SIZE, "%.*s", NCCL_REASON_SIZE - 1, fault.text);
    return fault.failed;
}

/* ---- batches ---- */

static struct batch *take_batch(struct carrier_nccl *nccl)
{
    struct batch *batch = nccl->idle;

    if (batch) {
        nccl->idle = batch->next;
        return batch;
    }
    batch = calloc(1, sizeof(*batch));
    if (batch && nccl->device.mark_new(nccl->device.context, &batch->mark) < 0) {
        free(batch);
        batch = NULL;
    }
    return batch;
}

static void give_batch_back(struct carrier_nccl *nccl, struct batch *batch)
{
    batch->next = nccl->idle;
    nccl->idle = batch;
}

static bool batch_passed(void *context)
{
    struct carrier_nccl *nccl = context;

    return nccl->device.mark_passed(nccl->device.context, nccl->waited->mark);
}

/* Name the first peers of the moves, each once. */
static void name_peers(char ret_text[64], const struct carrier_move *moves, size_t move_count)
{
    unsigned named[NAMED_MAX], count = 0, length = 0;

    ret_text[0] = '\0';
    for (size_t i = 0; i < move_count && count < NAMED_MAX; i++) {
        bool known = false;
        for (unsigned k = 0; k < count; k++)
            known |= named[k] == moves[i].peer;
        if (known)
            continue;
        named[count++] = moves[i].peer;
        length += (unsigned)snprintf(ret_text + length, 64 - length, "%s%u",
                                     count == 1 ? "rank " : ", ", moves[i].peer);
    }
}

/* ---- the carrier ---- */

static unsigned member_of(const struct carrier_nccl *nccl, unsigned rank)
{
    unsigned member = 0;

    while (member < nccl->member_count && nccl->ranks[member] != rank)
        member++;
    assert(member < nccl->member_count); /* callers post only to members of the route */
    return member;
}

static int translate(struct carrier_nccl *nccl, const struct carrier_move *moves, size_t move_count)
{
    if (move_count > nccl->moves_max) {
        struct nccl_move *larger = realloc(nccl->moves, move_count * sizeof(*larger));
        if (!larger)
            return -ENOMEM;
        nccl->moves = larger;
        nccl->moves_max = move_count;
    }
    for (size_t i = 0; i < move_count; i++)
        nccl->moves[i] = (struct nccl_move){.peer = member_of(nccl, moves[i].peer),
                                            .receive = moves[i].receive,
                                            .data = moves[i].data,
                                            .size_bytes = moves[i].size_bytes};
    return 0;
}

static uint64_t deadline_of(const struct carrier_nccl *nccl)
{
    return clock_monotonic_ns() + nccl->move_timeout_ns;
}

/* NCCL reports a lost peer at about the same time as the mesh, but only the mesh knows its rank. So
 * the mesh gets BLAME_NS to report the peer before it is failed with NCCL's reason. */
static void fail_mesh(struct carrier_nccl *nccl, const char *reason)
{
    if (!mesh_await_fault(nccl->mesh, clock_monotonic_ns() + BLAME_NS))
        mesh_abort(nccl->mesh, reason);
}

static int post(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests)
{
    struct carrier_nccl *nccl = nccl_of(carrier);
    struct error error = {0};

    memset(ret_requests, 0, move_count * sizeof(*ret_requests));
    if (move_count == 0)
        return 0;
    struct batch *batch = take_batch(nccl);
    int status = batch ? translate(nccl, moves, move_count) : -ENOMEM;
    if (!status) {
        nccl->device.follow(nccl->device.context, nccl->device.stream);
        status = nccl_exchange(nccl->clique, nccl->communicator, nccl->moves, move_count,
                               nccl->device.stream, deadline_of(nccl), &error);
    }
    if (status) {
        if (error.code)
            fail_mesh(nccl, error.text);
        else
            carrier_abort(carrier, "no memory for what is to be sent");
        if (batch)
            give_batch_back(nccl, batch);
        return status;
    }
    nccl->device.mark_set(nccl->device.context, batch->mark, nccl->device.stream);
    batch->waiting = (unsigned)move_count;
    batch->complete = false;
    name_peers(batch->peers, moves, move_count);
    for (size_t i = 0; i < move_count; i++)
        ret_requests[i] = (struct carrier_request *)batch;
    return 0;
}

static int wait_for_batch(struct carrier_nccl *nccl, struct batch *batch)
{
    struct error error = {0};
    char text[NCCL_REASON_SIZE];

    nccl->waited = batch;
    int status = nccl_wait(nccl->clique, batch_passed, nccl, deadline_of(nccl), &error);
    nccl->waited = NULL;
    if (status == -ETIMEDOUT) {
        snprintf(text, sizeof(text),
                 "NCCL: what goes between this worker and %s was not moved within %llu ms",
                 batch->peers, (unsigned long long)(nccl->move_timeout_ns / NS_PER_MS));
        carrier_abort(&nccl->carrier, text);
    } else if (status) {
        fail_mesh(nccl, error.text);
    }
    return status;
}

static int wait_for(struct carrier *carrier, struct carrier_request *request)
{
    struct carrier_nccl *nccl = nccl_of(carrier);
    struct batch *batch = (struct batch *)request;

    if (!batch->complete) {
        batch->result = wait_for_batch(nccl, batch);
        batch->complete = true;
    }
    int status = batch->result;
    if (--batch->waiting == 0)
        give_batch_back(nccl, batch);
    return status;
}

/* Skip a batch that is already complete: its mark has passed. */
static void precede(struct carrier *carrier, struct carrier_request *request)
{
    struct carrier_nccl *nccl = nccl_of(carrier);

    nccl->device.mark_precede(nccl->device.context, ((struct batch *)request)->mark);
}

static bool test(struct carrier *carrier, struct carrier_request *request)
{
    struct carrier_nccl *nccl = nccl_of(carrier);
    struct batch *batch = (struct batch *)request;

    return batch->complete || nccl->device.mark_passed(nccl->device.context, batch->mark) ||
           nccl_ended(nccl->clique);
}

/* One clique has all routes of the device, so any of its carriers can guard it. */
static void guard(struct carrier *carrier)
{
    nccl_guard(nccl_of(carrier)->clique, deadline_of(nccl_of(carrier)));
}

static int unguard(struct carrier *carrier)
{
    struct error error = {0};
    int status = nccl_unguard(nccl_of(carrier)->clique, &error);

    if (status)
        fail_mesh(nccl_of(carrier), error.text);
    return status;
}

static void abort_nccl(struct carrier *carrier, const char *reason)
{
    nccl_abort(nccl_of(carrier)->clique, reason);
    mesh_abort(nccl_of(carrier)->mesh, reason);
}

static void free_nccl(struct carrier *carrier)
{
    struct carrier_nccl *nccl = nccl_of(carrier);

    while (nccl->idle) {
        struct batch *batch = nccl->idle;
        nccl->idle = batch->next;
        nccl->device.mark_free(nccl->device.context, batch->mark);
        free(batch);
    }
    free(nccl->ranks);
    free(nccl->moves);
    free(nccl);
}

static const struct carrier_operations nccl_operations = {
    .name = "nccl",
    .device_memory = true,
    .post = post,
    .wait = wait_for,
    .precede = precede,
    .test = test,
    .guard = guard,
    .unguard = unguard,
    .abort = abort_nccl,
    .free = free_nccl,
};

/* ---- joining ---- */

/* Send the first member's identity to all others, or an empty message if it has none. */
static int tell_id(const struct carrier_nccl_options *options, uint8_t id[NCCL_ID_SIZE],
                   struct error *error)
{
    const struct carrier_group *group = &options->group;
    int made = nccl_unique_id(options->library, id, error);
    int status = 0;

    for (unsigned i = 1; i < group->member_count && !status; i++)
        status =
            mesh_send(group->mesh, group->ranks[i], group->tag, id, made ? 0 : NCCL_ID_SIZE, NULL);
    if (status)
        return error_set(error, status, "the links broke while NCCL's identity was told");
    return made ? -ENOTSUP : 0;
}

static int hear_id(const struct carrier_nccl_options *options, uint8_t ret_id[NCCL_ID_SIZE],
                   struct error *error)
{
    const struct carrier_group *group = &options->group;
    AUTO_FREE void *data = NULL;
    size_t size_bytes = 0;
    int status = mesh_receive_any(group->mesh, group->ranks[0], group->tag,
                                  options->join_deadline_ns, &data, &size_bytes);

    if (status)
        return error_set(error, status, "rank %u told no identity for NCCL in time",
                         group->ranks[0]);
    if (size_bytes == 0)
        return error_set(error, -ENOTSUP, "the NCCL of rank %u makes no identity", group->ranks[0]);
    if (size_bytes != NCCL_ID_SIZE)
        return error_set(error, -ECONNRESET, "rank %u told an NCCL identity of %zu bytes",
                         group->ranks[0], size_bytes);
    memcpy(ret_id, data, NCCL_ID_SIZE);
    return 0;
}

/* Exchange a byte with each member in one group, which connects all of them. The byte is sent from
 * the first half of the scratch memory and received into the second. */
static int connect_all(const struct carrier_nccl_options *options, struct carrier_nccl *nccl,
                       struct error *error)
{
    const struct carrier_group *group = &options->group;
    size_t count = 0;
    AUTO_FREE struct nccl_move *moves = calloc(2 * (size_t)group->member_count, sizeof(*moves));

    if (!moves)
        return error_set(error, -ENOMEM, "no memory to connect the members");
    for (unsigned i = 0; i < group->member_count; i++) {
        char *scratch = options->device.scratch;
        if (i == group->self)
            continue;
        moves[count++] = (struct nccl_move){.peer = i, .data = scratch, .size_bytes = 1};
        moves[count++] = (struct nccl_move){.peer = i,
                                            .receive = true,
                                            .data = scratch + CARRIER_SCRATCH_BYTES / 2,
                                            .size_bytes = 1};
    }
    return nccl_exchange(options->clique, nccl->communicator, moves, count, options->device.stream,
                         options->join_deadline_ns, error);
}

static int join(const struct carrier_nccl_options *options, struct carrier_nccl *nccl,
                struct error *error)
{
    const struct carrier_group *group = &options->group;
    uint8_t id[NCCL_ID_SIZE];
    struct error cause = {0};
    int status = group->self == 0 ? tell_id(options, id, error) : hear_id(options, id, error);

    if (status)
        return status;
    status = nccl_join(options->clique, id, group->self, group->member_count,
                       options->join_deadline_ns, &nccl->communicator, &cause);
    if (!status)
        status = connect_all(options, nccl, &cause);
    if (!status)
        return 0;
    /* If a peer was lost, NCCL is not to blame: see fail_mesh(). */
    status = mesh_await_fault(group->mesh, clock_monotonic_ns() + BLAME_NS) ? -ECONNRESET : -EIO;
    return error_set(error, status, "joining the %u members from rank %u on: %s",
                     group->member_count, group->ranks[0], cause.text);
}

int carrier_nccl_open(const struct carrier_nccl_options *options, struct carrier **ret_carrier,
                      struct error *error)
{
    const struct carrier_group *group = &options->group;
    struct carrier_nccl *nccl = calloc(1, sizeof(*nccl));
    int status = -ENOMEM;

    if (nccl) {
        *nccl = (struct carrier_nccl){.carrier.operations = &nccl_operations,
                                      .clique = options->clique,
                                      .mesh = group->mesh,
                                      .device = options->device,
                                      .move_timeout_ns = options->move_timeout_ns,
                                      .member_count = group->member_count};
        nccl->ranks = calloc(group->member_count, sizeof(*nccl->ranks));
    }
    if (nccl && nccl->ranks) {
        memcpy(nccl->ranks, group->ranks, group->member_count * sizeof(*nccl->ranks));
        status = join(options, nccl, error);
    } else {
        error_set(error, status, "no memory for a carrier");
    }
    if (!status) {
        *ret_carrier = &nccl->carrier;
        return 0;
    }
    if (status != -ENOTSUP) { /* the others must not wait for this member */
        nccl_abort(options->clique, error->text);
        mesh_abort(group->mesh, error->text);
    }
    if (nccl)
        free_nccl(&nccl->carrier);
    return status;
}
