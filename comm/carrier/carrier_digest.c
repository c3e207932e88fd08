#include "comm/carrier/carrier_digest.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/bytes.h"
#include "base/hash.h"

#define CHUNK_BYTES (1u << 20) /* read at a time */
#define WORDS       4          /* of a message: count and digest, sent and received */

/* Count and digest of the moves between this rank and another in one direction. */
struct tally {
    uint64_t posted, settled,
        digest; /* the digest: a sum, so moves may be waited for in any order */
};

struct digest_request {
    TAILQ_ENTRY(digest_request) entry;
    struct carrier_request *inner; /* NULL: waited for, digest taken */
    struct carrier_move move;
    unsigned member;
    uint64_t number, digest;
    int result;
};
TAILQ_HEAD(digest_requests, digest_request);

struct carrier_digest {
    struct carrier carrier; /* first */
    struct carrier_operations operations;
    struct carrier_digest_options options;
    unsigned *ranks;
    struct tally *sent, *received; /* by member */
    struct digest_requests under_way, idle;
    struct carrier_request **inner; /* of one post */
    size_t inner_max;
    struct hash_stream *hash;
    void *chunk;
};

static struct carrier_digest *digest_of(struct carrier *carrier)
{
    return (struct carrier_digest *)carrier;
}

static struct carrier *inner_of(struct carrier *carrier)
{
    return digest_of(carrier)->options.carrier;
}

/* ---- digests ---- */

/* The device may be waiting for another route's message, so this is guarded. */
static int take_digest(struct carrier_digest *digest, struct digest_request *request)
{
    const struct carrier_move *move = &request->move;
    uint8_t number[8];

    bytes_put_u64(number, request->number);
    hash_stream_reset(digest->hash);
    hash_stream_add(digest->hash, number, sizeof(number));
    carrier_guard(digest->options.carrier);
    for (size_t at = 0; at < move->size_bytes; at += CHUNK_BYTES) {
        size_t size = MIN(move->size_bytes - at, (size_t)CHUNK_BYTES);
        digest->options.read(digest->options.context, digest->chunk, (char *)move->data + at, size);
        hash_stream_add(digest->hash, digest->chunk, size);
    }
    request->digest = hash_stream_result(digest->hash).low;
    return carrier_unguard(digest->options.carrier);
}

static struct tally *tally_of(struct carrier_digest *digest, const struct digest_request *request)
{
    return &(request->move.receive ? digest->received : digest->sent)[request->member];
}

static void settle(struct carrier_digest *digest, struct digest_request *request)
{
    if (!request->inner)
        return;
    request->result = carrier_complete(digest->options.carrier, &request->inner);
    if (!request->result && request->move.receive)
        request->result = take_digest(digest, request);
    if (request->result)
        return;
    tally_of(digest, request)->digest += request->digest;
    tally_of(digest, request)->settled++;
}

/* ---- the carrier ---- */

static int reserve(struct carrier_digest *digest, size_t count)
{
    struct digest_request *request;
    size_t idle = 0;

    TAILQ_FOREACH(request, &digest->idle, entry)
    idle++;
    for (; idle < count; idle++) {
        request = calloc(1, sizeof(*request));
        if (!request)
            return -ENOMEM;
        TAILQ_INSERT_TAIL(&digest->idle, request, entry);
    }
    if (count > digest->inner_max) {
        struct carrier_request **larger =
            realloc(digest->inner, count * sizeof(struct carrier_request *));
        if (!larger)
            return -ENOMEM;
        digest->inner = larger;
        digest->inner_max = count;
    }
    return 0;
}

static unsigned member_of(const struct carrier_digest *digest, unsigned rank)
{
    unsigned member = 0;

    while (member < digest->options.group.member_count && digest->ranks[member] != rank)
        member++;
    assert(member < digest->options.group.member_count);
    return member;
}

static void release(struct carrier_digest *digest, struct digest_request *request)
{
    TAILQ_REMOVE(&digest->under_way, request, entry);
    TAILQ_INSERT_TAIL(&digest->idle, request, entry);
}

/* Take a send's digest when it is posted: a later receive may overwrite its data long before the
 * caller waits for the send. The data is ready only when the device has computed it. */
static int take_request(struct carrier_digest *digest, const struct carrier_move *move,
                        struct digest_request **ret_request)
{
    struct digest_request *request = TAILQ_FIRST(&digest->idle);

    TAILQ_REMOVE(&digest->idle, request, entry);
    TAILQ_INSERT_TAIL(&digest->under_way, request, entry);
    request->move = *move;
    request->member = member_of(digest, move->peer);
    request->number = tally_of(digest, request)->posted++;
    request->inner = NULL;
    request->result = 0;
    *ret_request = request;
    return move->receive ? 0 : take_digest(digest, request);
}

static int post(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests)
{
    struct carrier_digest *digest = digest_of(carrier);
    int status = reserve(digest, move_count);

    memset(ret_requests, 0, move_count * sizeof(*ret_requests));
    if (status) {
        carrier_abort(carrier, "no memory for what is to be sent");
        return status;
    }
    memset(digest->inner, 0, move_count * sizeof(*digest->inner));
    for (size_t i = 0; i < move_count && !status; i++) {
        struct digest_request *request;
        status = take_request(digest, &moves[i], &request);
        ret_requests[i] = (struct carrier_request *)request;
    }
    if (!status)
        status = carrier_post(digest->options.carrier, moves, move_count, digest->inner);
    for (size_t i = 0; i < move_count; i++) {
        struct digest_request *request = (struct digest_request *)ret_requests[i];
        if (request)
            request->inner = digest->inner[i];
        if (request && !request->inner) { /* it was not posted */
            release(digest, request);
            ret_requests[i] = NULL;
        }
    }
    return status;
}

static int wait_for(struct carrier *carrier, struct carrier_request *taken)
{
    struct carrier_digest *digest = digest_of(carrier);
    struct digest_request *request = (struct digest_request *)taken;

    settle(digest, request);
    release(digest, request);
    return request->result;
}

static bool test(struct carrier *carrier, struct carrier_request *taken)
{
    struct digest_request *request = (struct digest_request *)taken;

    return !request->inner || carrier_test(inner_of(carrier), request->inner);
}

static void guard(struct carrier *carrier)
{
    carrier_guard(inner_of(carrier));
}

static int unguard(struct carrier *carrier)
{
    return carrier_unguard(inner_of(carrier));
}

static void abort_inner(struct carrier *carrier, const char *reason)
{
    carrier_abort(inner_of(carrier), reason);
}

static void free_requests(struct digest_requests *requests)
{
    struct digest_request *request;

    while ((request = TAILQ_FIRST(requests))) {
        TAILQ_REMOVE(requests, request, entry);
        free(request);
    }
}

/* Free all but the inner carrier. */
static void free_digest(struct carrier_digest *digest)
{
    free_requests(&digest->idle);
    free_requests(&digest->under_way);
    hash_stream_free(digest->hash);
    free(digest->chunk);
    free(digest->inner);
    free(digest->ranks);
    free(digest->sent);
    free(digest->received);
    free(digest);
}

static void free_both(struct carrier *carrier)
{
    carrier_free(inner_of(carrier));
    free_digest(digest_of(carrier));
}

int carrier_digest_new(const struct carrier_digest_options *options, struct carrier **ret_carrier)
{
    const struct carrier_group *group = &options->group;
    struct carrier_digest *digest = calloc(1, sizeof(*digest));

    if (!digest)
        return -ENOMEM;
    TAILQ_INIT(&digest->idle);
    TAILQ_INIT(&digest->under_way);
    digest->options = *options;
    digest->operations = (struct carrier_operations){
        .name = options->carrier->operations->name,
        .device_memory = options->carrier->operations->device_memory,
        .by_tag = options->carrier->operations->by_tag,
        .post = post,
        .wait = wait_for,
        .test = test,
        .guard = guard,
        .unguard = unguard,
        .abort = abort_inner,
        .free = free_both,
    };
    digest->carrier.operations = &digest->operations;
    digest->ranks = calloc(group->member_count, sizeof(*digest->ranks));
    digest->sent = calloc(group->member_count, sizeof(*digest->sent));
    digest->received = calloc(group->member_count, sizeof(*digest->received));
    digest->hash = hash_stream_new();
    digest->chunk = malloc(CHUNK_BYTES);
    if (!digest->ranks || !digest->sent || !digest->received || !digest->hash || !digest->chunk) {
        free_digest(digest);
        return -ENOMEM;
    }
    memcpy(digest->ranks, group->ranks, group->member_count * sizeof(*digest->ranks));
    digest->options.group.ranks = digest->ranks;
    *ret_carrier = &digest->carrier;
    return 0;
}

/* ---- comparing ---- */

/* Return whether moves were posted. Both ends of a pair count its moves when they are posted, so
 * they agree. */
static bool has_traffic(const struct carrier_digest *digest, unsigned member)
{
    return digest->sent[member].posted + digest->received[member].posted > 0;
}

int carrier_digest_tell(struct carrier *carrier, uint64_t tag)
{
    struct carrier_digest *digest = digest_of(carrier);
    const struct carrier_group *group = &digest->options.group;
    struct digest_request *request;
    int status = 0;

    TAILQ_FOREACH(request, &digest->under_way, entry)
    {
        settle(digest, request);
        if (!status)
            status = request->result;
    }
    for (unsigned i = 0; i < group->member_count && !status; i++) {
        uint8_t message[8 * WORDS];
        if (!has_traffic(digest, i))
            continue;
        bytes_put_u64(message, digest->sent[i].settled);
        bytes_put_u64(message + 8, digest->sent[i].digest);
        bytes_put_u64(message + 16, digest->received[i].settled);
        bytes_put_u64(message + 24, digest->received[i].digest);
        status = mesh_send(group->mesh, group->ranks[i], tag, message, sizeof(message), NULL);
    }
    return status;
}

static int differ(struct carrier *carrier, unsigned from, unsigned to)
{
    char text[160];

    snprintf(text, sizeof(text),
             "%s: data from rank %u to rank %u was changed on its way from device to device",
             carrier->operations->name, from, to);
    carrier_abort(carrier, text);
    return -ECONNRESET;
}

static int compare_with(struct carrier *carrier, unsigned member, uint64_t tag)
{
    struct carrier_digest *digest = digest_of(carrier);
    const struct carrier_group *group = &digest->options.group;
    const struct tally *sent = &digest->sent[member], *received = &digest->received[member];
    uint8_t message[8 * WORDS];
    unsigned self = group->ranks[group->self], peer = group->ranks[member];
    struct mesh_request *request;
    int status = mesh_receive(group->mesh, peer, tag, message, sizeof(message), &request);

    if (!status)
        status = mesh_wait(request, UINT64_MAX); /* heartbeats watch the peer */
    if (status)
        return status;
    if (bytes_get_u64(message) != received->settled ||
        bytes_get_u64(message + 8) != received->digest)
        return differ(carrier, peer, self);
    if (bytes_get_u64(message + 16) != sent->settled || bytes_get_u64(message + 24) != sent->digest)
        return differ(carrier, self, peer);
    return 0;
}

int carrier_digest_compare(struct carrier *carrier, uint64_t tag)
{
    const struct carrier_digest *digest = digest_of(carrier);
    int status = 0;

    for (unsigned i = 0; i < digest->options.group.member_count && !status; i++)
        if (has_traffic(digest, i))
            status = compare_with(carrier, i, tag);
    return status;
}
