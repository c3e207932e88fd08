/*
 * NCCL without GPUs: the calls that comm/nccl.c looks for. Ranks are threads of one process; moves
 * of a pair are matched in order and copied at once, host memory to host memory.
 */
#include "unit/comm/fake_nccl.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS     0
#define ARGUMENT    4
#define IN_PROGRESS 7
#define RANKS       4
#define WAITING     64

struct fake_nccl fake_nccl;

struct id {
    char bytes[128];
};

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct communicator {
    int rank, polls_left;
    bool posting;
};

struct move {
    struct communicator *owner;
    void *data;
    size_t size_bytes;
    int peer;
    bool receive;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct move sends[WAITING], receives[WAITING];
    unsigned send_count, receive_count;
} pairs[RANKS][RANKS]; /* [from][to] */

static _Thread_local struct {
    int depth;
    struct move moves[WAITING];
    int count, aborts;
} group;

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
    memset(ret_id, 42, sizeof(*ret_id));
    return SUCCESS;
}

int ncclCommInitRankConfig(struct communicator **ret, int count, struct id id, int rank,
                           const struct config *config);
int ncclCommInitRankConfig(struct communicator **ret, int count, struct id id, int rank,
                           const struct config *config)
{
    *ret = NULL;
    if (fake_nccl.init_result != SUCCESS)
        return fake_nccl.init_result;
    if (config->magic != 0xcafebeef || config->blocking != 0 || rank >= count || id.bytes[5] != 42)
        return ARGUMENT;
    *ret = calloc(1, sizeof(**ret));
    (*ret)->rank = rank;
    (*ret)->polls_left = fake_nccl.polls_to_join;
    fake_nccl.alive++;
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(struct communicator *communicator, int *ret_result);
int ncclCommGetAsyncError(struct communicator *communicator, int *ret_result)
{
    *ret_result = fake_nccl.fault;
    if (*ret_result != SUCCESS || communicator->polls_left == 0)
        return SUCCESS;
    if (communicator->polls_left > 0)
        communicator->polls_left--;
    *ret_result = IN_PROGRESS;
    return SUCCESS;
}

int ncclGroupStart(void);
int ncclGroupStart(void)
{
    group.depth++;
    return SUCCESS;
}

static void put(struct move *moves, unsigned *count, const struct move *move)
{
    if (*count < WAITING)
        moves[(*count)++] = *move;
}

static void match(int from, int to)
{
    unsigned count = pairs[from][to].send_count;

    if (pairs[from][to].receive_count < count)
        count = pairs[from][to].receive_count;
    for (unsigned i = 0; i < count; i++)
        memcpy(pairs[from][to].receives[i].data, pairs[from][to].sends[i].data,
               pairs[from][to].sends[i].size_bytes);
    memmove(pairs[from][to].sends, pairs[from][to].sends + count,
            (pairs[from][to].send_count -= count) * sizeof(struct move));
    memmove(pairs[from][to].receives, pairs[from][to].receives + count,
            (pairs[from][to].receive_count -= count) * sizeof(struct move));
}

static void carry_out(const struct move *move)
{
    int from = move->receive ? move->peer : move->owner->rank;
    int to = move->receive ? move->owner->rank : move->peer;

    if (move->receive)
        put(pairs[from][to].receives, &pairs[from][to].receive_count, move);
    else
        put(pairs[from][to].sends, &pairs[from][to].send_count, move);
    move->owner->polls_left = fake_nccl.polls_to_post;
    match(from, to);
}

int ncclGroupEnd(void);
int ncclGroupEnd(void)
{
    if (--group.depth > 0)
        return SUCCESS;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < group.count; i++)
        carry_out(&group.moves[i]);
    pthread_mutex_unlock(&mutex);
    if (group.aborts > fake_nccl.largest_abort)
        fake_nccl.largest_abort = group.aborts;
    group.count = group.aborts = 0;
    return IN_PROGRESS;
}

static int post(struct communicator *communicator, void *data, size_t count, int type, int peer,
                bool receive)
{
    if (fake_nccl.post_result != SUCCESS)
        return fake_nccl.post_result;
    if (type != 0 || peer >= RANKS || group.count == WAITING)
        return ARGUMENT;
    group.moves[group.count++] = (struct move){
        .owner = communicator, .data = data, .size_bytes = count, .peer = peer, .receive = receive};
    return SUCCESS;
}

int ncclSend(const void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream);
int ncclSend(const void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream)
{
    (void)stream;
    return post(communicator, (void *)(size_t)data, count, type, peer, false);
}

int ncclRecv(void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream);
int ncclRecv(void *data, size_t count, int type, int peer, struct communicator *communicator,
             void *stream)
{
    (void)stream;
    return post(communicator, data, count, type, peer, true);
}

int ncclCommAbort(struct communicator *communicator);
int ncclCommAbort(struct communicator *communicator)
{
    if (group.depth == 0)
        fake_nccl.aborts_outside++;
    while (fake_nccl.abort_hangs)
        sched_yield();
    group.aborts++;
    fake_nccl.alive--;
    free(communicator);
    return SUCCESS;
}
