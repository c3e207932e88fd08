#include "unit/comm/fake_nccl.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS     0
#define INTERNAL    3
#define ARGUMENT    4
#define IN_PROGRESS 7
#define RANKS_MAX   16
#define WORLDS_MAX  64
#define MOVES_MAX   512
#define ABORTS_MAX  16

struct fake_nccl fake_nccl;

struct id {
    char bytes[128];
};

struct config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, ctas_min, ctas_max;
    const char *network;
};

/* All communicators of one identity. */
struct world {
    char id[128];
    int arrived, left;
    bool sender_came[RANKS_MAX][RANKS_MAX], receiver_came[RANKS_MAX][RANKS_MAX]; /* from, to */
};

struct communicator {
    struct world *world;
    int rank, count, polls_left;
    bool aborted, finalized;
    struct fake_group *waiting; /* for a first connection; not on its stream yet */
};

struct move {
    struct communicator *owner;
    void *data;
    size_t size_bytes;
    int peer;
    bool receive;
    struct fake_group *group;
    struct move *next; /* of its pair's queue, while its group is under way */
};

struct fake_group {
    struct fake_group *next;
    struct fake_stream *stream;
    int count, left;
    struct move moves[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct world worlds[WORLDS_MAX]; /* reused when all ranks have left */
static struct move *under_way; /* of the groups at the heads of their streams, oldest first */
static int ids_made;

static _Thread_local struct {
    int depth;
    struct move moves[MOVES_MAX];
    struct fake_stream *stream;
    struct communicator *aborted[ABORTS_MAX];
    int count, aborts;
} group;

/* ---- identities ---- */

int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = fake_nccl.version;
    return SUCCESS;
}

const char *ncclGetErrorString(int result);
const char *ncclGetErrorString(int result)
{
    return result == 6 ? "remote process exited" : result == 2 ? "system error" : "other";
}

int ncclGetUniqueId(struct id *ret_id);
int ncclGetUniqueId(struct id *ret_id)
{
    if (fake_nccl.no_id)
        return INTERNAL;
    pthread_mutex_lock(&mutex);
    memset(ret_id, 42, sizeof(*ret_id));
    ids_made++;
    memcpy(ret_id, &ids_made, sizeof(ids_made));
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

static struct world *world_of(const struct id *id)
{
    struct world *unused = NULL;

    for (int i = 0; i < WORLDS_MAX; i++) {
        if (worlds[i].arrived > worlds[i].left && !memcmp(worlds[i].id, id->bytes, sizeof(*id)))
            return &worlds[i];
        if (worlds[i].arrived == worlds[i].left)
            unused = &worlds[i];
    }
    if (!unused)
        abort();
    *unused = (struct world){0};
    memcpy(unused->id, id->bytes, sizeof(*id));
    return unused;
}

int ncclCommInitRankConfig(struct communicator **ret, int count, struct id id, int rank,
                           const struct config *config);
int ncclCommInitRankConfig(struct communicator **ret, int count, struct id id, int rank,
                           const struct config *config)
{
    *ret = NULL;
    if (fake_nccl.init_result != SUCCESS)
        return fake_nccl.init_result;
    if (config->magic != 0xcafebeef || config->blocking != 0 || rank >= count ||
        count > RANKS_MAX || id.bytes[5] != 42)
        return ARGUMENT;
    if (config->version >= 21700)
        fake_nccl.ctas_max = config->ctas_max;
    pthread_mutex_lock(&mutex);
    *ret = calloc(1, sizeof(**ret));
    **ret = (struct communicator){.world = world_of(&id),
                                  .rank = rank,
                                  .count = count,
                                  .polls_left = fake_nccl.polls_to_join};
    (*ret)->world->arrived++;
    pthread_mutex_unlock(&mutex);
    fake_nccl.alive++;
    return IN_PROGRESS;
}

static bool tries_to_connect(struct communicator *communicator);

int ncclCommGetAsyncError(struct communicator *communicator, int *ret_result);
int ncclCommGetAsyncError(struct communicator *communicator, int *ret_result)
{
    *ret_result = fake_nccl.fault;
    if (*ret_result != SUCCESS)
        return SUCCESS;
    pthread_mutex_lock(&mutex);
    bool missing = fake_nccl.together && communicator->world->arrived < communicator->count;
    bool closing = communicator->finalized && fake_nccl.finalize_hangs;
    bool connecting = tries_to_connect(communicator);
    if (missing || closing || connecting || communicator->polls_left != 0)
        *ret_result = IN_PROGRESS;
    if (!missing && communicator->polls_left > 0)
        communicator->polls_left--;
    pthread_mutex_unlock(&mutex);
    return SUCCESS;
}

/* ---- moves; the mutex is held ---- */

static void activate(struct fake_group *head)
{
    struct move **end = &under_way;

    while (*end)
        end = &(*end)->next;
    for (int i = 0; i < head->count; i++) {
        *end = &head->moves[i];
        end = &head->moves[i].next;
    }
}

/* Return whether no earlier move of the same direction of the same pair is pending. */
static bool is_first(const struct move *move)
{
    const struct move *other = under_way;

    while (other != move && (other->owner != move->owner || other->peer != move->peer ||
                             other->receive != move->receive))
        other = other->next;
    return other == move;
}

static struct move *counterpart_of(const struct move *move)
{
    for (struct move *other = under_way; other; other = other->next)
        if (other->owner->world == move->owner->world && other->owner->rank == move->peer &&
            other->peer == move->owner->rank && other->receive != move->receive)
            return other;
    return NULL;
}

static void take_out(struct move *move)
{
    struct move **link = &under_way;

    while (*link != move)
        link = &(*link)->next;
    *link = move->next;
    if (--move->group->left > 0)
        return;
    struct fake_group *done = move->group;
    struct fake_stream *stream = done->stream;
    stream->head = done->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->finished++;
    free(done);
    if (stream->head)
        activate(stream->head);
}

static void copy(struct move *send, struct move *receive)
{
    if (send->size_bytes == receive->size_bytes)
        memcpy(receive->data, send->data, send->size_bytes);
    else
        fake_nccl.wrong++;
    if (send->size_bytes == 1)
        return;
    fake_nccl.moved += send->size_bytes;
    if (++fake_nccl.copied == fake_nccl.flip && receive->size_bytes > 0)
        ((unsigned char *)receive->data)[receive->size_bytes / 2] ^= 4;
}

/* One pair of moves that have met. Return: whether there was one */
static bool carry_out_one(void)
{
    for (struct move *move = under_way; move; move = move->next) {
        struct move *other = is_first(move) ? counterpart_of(move) : NULL;
        if (!other)
            continue;
        copy(move->receive ? other : move, move->receive ? move : other);
        take_out(move);
        take_out(other);
        return true;
    }
    return false;
}

/* ---- groups ---- */

int ncclGroupStart(void);
int ncclGroupStart(void)
{
    group.depth++;
    return SUCCESS;
}

/* ---- connections: made at the first move of a pair in a direction, by both sides together ---- */

static void come(const struct move *move)
{
    struct world *world = move->owner->world;

    if (move->receive)
        world->receiver_came[move->peer][move->owner->rank] = true;
    else
        world->sender_came[move->owner->rank][move->peer] = true;
}

static bool is_connected(const struct move *move)
{
    const struct world *world = move->owner->world;
    int from = move->receive ? move->peer : move->owner->rank;
    int to = move->receive ? move->owner->rank : move->peer;

    return fake_nccl.connected || (world->sender_came[from][to] && world->receiver_came[from][to]);
}

static void put_on_stream(struct fake_group *made)
{
    struct fake_stream *stream = made->stream;

    stream->posted++;
    if (stream->tail)
        stream->tail->next = made;
    else
        stream->head = made;
    stream->tail = made;
    if (stream->head == made)
        activate(made);
    while (carry_out_one())
        continue;
}

/* Put the group that waits on its stream, if all of its pairs have met. Return: whether it waits on
 */
static bool tries_to_connect(struct communicator *communicator)
{
    struct fake_group *made = communicator->waiting;

    for (int i = 0; made && i < made->count; i++)
        if (!is_connected(&made->moves[i]))
            return true;
    communicator->waiting = NULL;
    if (made)
        put_on_stream(made);
    return false;
}

static void take_group(void)
{
    struct fake_group *made = calloc(1, sizeof(*made) + (size_t)group.count * sizeof(struct move));
    struct communicator *owner = group.moves[0].owner;

    made->stream = group.stream;
    made->count = made->left = group.count;
    for (int i = 0; i < group.count; i++) {
        made->moves[i] = group.moves[i];
        made->moves[i].group = made;
        come(&made->moves[i]);
    }
    owner->polls_left = fake_nccl.polls_to_post;
    owner->waiting = made;
    (void)tries_to_connect(owner);
}

/* Groups that are queued come under way in their turn, and their moves go then. */
static void take_out_aborted(void)
{
    bool found;

    do {
        found = false;
        for (struct move *move = under_way; move && !found; move = move->next)
            if (move->owner->aborted) {
                take_out(move);
                found = true;
            }
    } while (found);
}

static void carry_out_aborts(void)
{
    for (int i = 0; i < group.aborts; i++)
        group.aborted[i]->aborted = true;
    take_out_aborted();
    for (int i = 0; i < group.aborts; i++) {
        group.aborted[i]->world->left++;
        free(group.aborted[i]->waiting);
        free(group.aborted[i]);
    }
    fake_nccl.alive -= group.aborts;
    if (group.aborts > fake_nccl.largest_abort)
        fake_nccl.largest_abort = group.aborts;
}

int ncclGroupEnd(void);
int ncclGroupEnd(void)
{
    if (--group.depth > 0)
        return SUCCESS;
    pthread_mutex_lock(&mutex);
    if (group.count > 0)
        take_group();
    carry_out_aborts();
    pthread_mutex_unlock(&mutex);
    group.count = group.aborts = 0;
    return IN_PROGRESS;
}

static int post(struct communicator *communicator, void *data, size_t count, int type, int peer,
                bool receive, void *stream)
{
    if (fake_nccl.post_result != SUCCESS)
        return fake_nccl.post_result;
    if (type != 0 || peer >= communicator->count || group.count == MOVES_MAX || !stream)
        return ARGUMENT;
    group.stream = stream;
    group.moves[group.count++] = (struct move){
        .owner = communicator, .data = data, .size_bytes = count, .peer = peer, .receive = receive};
    return SUCCESS;
}

int ncclSend(const void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream);
int ncclSend(const void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream)
{
    return post(communicator, (void *)(size_t)data, count, type, peer, false, stream);
}

int ncclRecv(void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream);
int ncclRecv(void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream)
{
    return post(communicator, data, count, type, peer, true, stream);
}

int ncclCommAbort(struct communicator *communicator);
int ncclCommAbort(struct communicator *communicator)
{
    if (group.depth == 0)
        fake_nccl.aborts_outside++;
    while (fake_nccl.abort_hangs)
        sched_yield();
    if (group.aborts == ABORTS_MAX)
        return ARGUMENT;
    group.aborted[group.aborts++] = communicator;
    return SUCCESS;
}

int ncclCommFinalize(struct communicator *communicator);
int ncclCommFinalize(struct communicator *communicator)
{
    pthread_mutex_lock(&mutex);
    communicator->finalized = true;
    communicator->polls_left = fake_nccl.polls_to_post;
    pthread_mutex_unlock(&mutex);
    return IN_PROGRESS;
}

static bool has_moves(const struct communicator *communicator)
{
    for (const struct move *move = under_way; move; move = move->next)
        if (move->owner == communicator)
            return true;
    return false;
}

int ncclCommDestroy(struct communicator *communicator);
int ncclCommDestroy(struct communicator *communicator)
{
    while (fake_nccl.destroy_hangs)
        sched_yield();
    pthread_mutex_lock(&mutex);
    if (!communicator->finalized || communicator->polls_left != 0 || communicator->waiting ||
        has_moves(communicator))
        fake_nccl.wrong_ends++;
    communicator->world->left++;
    free(communicator);
    pthread_mutex_unlock(&mutex);
    fake_nccl.destroyed++;
    fake_nccl.alive--;
    return SUCCESS;
}
