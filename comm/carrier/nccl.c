#include "comm/carrier/nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/carrier/nccl_watch.h"

/* ---- the library's binary interface, as far as it is used ---- */

#define VERSION_MIN    21400 /* 2.14.0: non-blocking communicators */
#define CONFIG_MAGIC   0xcafebeefu
#define CONFIG_VERSION 21700
#define CONFIG_CTAS    21700   /* 2.17.0: limits of thread blocks */
#define UNDEFINED      INT_MIN /* NCCL_CONFIG_UNDEF_INT */
/* Thread blocks of one communicator, which keep their multiprocessors while they wait for a peer.
 * Products are planned for all multiprocessors, and a worker has up to five communicators. NCCL
 * would take up to 32 for each. The number was not measured; NCCL_MAX_CTAS overrides it. */
#define CTAS_MAX  8
#define TYPE_BYTE 0 /* ncclInt8 */

typedef struct nccl_communicator *nccl_communicator;

struct unique_id {
    char bytes[NCCL_ID_SIZE];
};

/* The first fields of ncclConfig_t, as of 2.17. A newer library leaves its other fields undefined,
 * by `version`; one from before 2.17 gets the fields that it knows, by `size`. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size, ctas_min, ctas_max;
    const char *network;
};

struct nccl_library {
    void *handle;
    unsigned version_number;
    int (*version)(int *ret_version);
    int (*unique_id)(struct unique_id *ret_id);
    int (*init)(nccl_communicator *ret_communicator, int rank_count, struct unique_id id, int rank,
                struct config *config);
    int (*state)(nccl_communicator communicator, int *ret_result);
    int (*communicator_abort)(nccl_communicator communicator);
    int (*finalize)(nccl_communicator communicator);
    int (*destroy)(nccl_communicator communicator);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t count, int type, int peer, nccl_communicator communicator,
                void *stream);
    int (*receive)(void *data, size_t count, int type, int peer, nccl_communicator communicator,
                   void *stream);
    const char *(*text)(int result);
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"ncclGetVersion", offsetof(struct nccl_library, version)},
    {"ncclGetUniqueId", offsetof(struct nccl_library, unique_id)},
    {"ncclCommInitRankConfig", offsetof(struct nccl_library, init)},
    {"ncclCommGetAsyncError", offsetof(struct nccl_library, state)},
    {"ncclCommAbort", offsetof(struct nccl_library, communicator_abort)},
    {"ncclCommFinalize", offsetof(struct nccl_library, finalize)},
    {"ncclCommDestroy", offsetof(struct nccl_library, destroy)},
    {"ncclGroupStart", offsetof(struct nccl_library, group_start)},
    {"ncclGroupEnd", offsetof(struct nccl_library, group_end)},
    {"ncclSend", offsetof(struct nccl_library, send)},
    {"ncclRecv", offsetof(struct nccl_library, receive)},
    {"ncclGetErrorString", offsetof(struct nccl_library, text)},
};

static int load(struct nccl_library *library, const char *path, struct error *error)
{
    int version = 0;

    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return error_set(error, -ENOENT, "%s is not installed", path);
    for (size_t i = 0; i < ARRAY_COUNT(symbols); i++) {
        void *symbol = dlsym(library->handle, symbols[i].name);
        if (!symbol)
            return error_set(error, -EIO, "%s lacks %s: firn needs NCCL 2.14 or newer", path,
                             symbols[i].name);
        memcpy((char *)library + symbols[i].offset, &symbol, sizeof(symbol));
    }
    if (library->version(&version) != NCCL_RESULT_SUCCESS || version < VERSION_MIN)
        return error_set(error, -EIO, "%s is version %d: firn needs NCCL 2.14 or newer", path,
                         version);
    library->version_number = (unsigned)version;
    return 0;
}

int nccl_library_open(const char *path, struct nccl_library **ret_library, struct error *error)
{
    struct nccl_library *library = calloc(1, sizeof(*library));

    if (!library)
        return error_set(error, -ENOMEM, "no memory for NCCL");
    int status = load(library, path, error);
    if (status) {
        nccl_library_close(library);
        return status;
    }
    *ret_library = library;
    return 0;
}

void nccl_library_close(struct nccl_library *library)
{
    if (!library)
        return;
    if (library->handle)
        dlclose(library->handle);
    free(library);
}

unsigned nccl_library_version(const struct nccl_library *library)
{
    return library->version_number;
}

int nccl_unique_id(struct nccl_library *library, uint8_t ret_id[NCCL_ID_SIZE], struct error *error)
{
    struct unique_id id;
    int result = library->unique_id(&id);

    if (result != NCCL_RESULT_SUCCESS)
        return error_set(error, -EIO, "NCCL makes no identity for a group: %s",
                         library->text(result));
    memcpy(ret_id, id.bytes, NCCL_ID_SIZE);
    return 0;
}

/* ---- the clique ---- */

#define POLL_NS  50000            /* between two polls of an event that is due soon */
#define WATCH_NS (20 * NS_PER_MS) /* between two polls of the watching thread */

struct nccl_clique {
    const struct nccl_library *library;
    struct nccl_clique_options options;
    pthread_mutex_t mutex; /* protects all members below and every call of NCCL; none of these calls
                            * blocks */
    pthread_cond_t changed;
    pthread_t watcher, ender;
    bool ender_runs, ender_ended, closing;
    bool abandoned; /* the ending thread owns the clique now */
    struct nccl_watch watch;
    nccl_communicator communicators[NCCL_COMMUNICATORS_MAX];
    unsigned count;
};

static struct timespec timespec_of(uint64_t at_ns)
{
    return (struct timespec){.tv_sec = (time_t)(at_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(at_ns % NS_PER_SECOND)};
}

/* Sleep at most @duration_ns, less when the state changes. The mutex is held. */
static void pause_for(struct nccl_clique *clique, uint64_t duration_ns)
{
    struct timespec until = timespec_of(clock_monotonic_ns() + duration_ns);
    pthread_cond_clockwait(&clique->changed, &clique->mutex, CLOCK_MONOTONIC, &until);
}

static void destroy(struct nccl_clique *clique)
{
    pthread_cond_destroy(&clique->changed);
    pthread_mutex_destroy(&clique->mutex);
    free(clique);
}

/* Abort all communicators, or destroy them. These are the only calls that may hang, so they have a
 * thread of their own, and may outlive the library's table.
 */
static void *end_all(void *context)
{
    struct nccl_clique *clique = context;
    const struct nccl_library library = *clique->library;
    struct nccl_event event = {.type = NCCL_RETURNED};

    pthread_mutex_lock(&clique->mutex);
    bool orderly = clique->watch.phase == NCCL_DESTROYING;
    pthread_mutex_unlock(&clique->mutex);
    if (!orderly)
        (void)!library.group_start();
    for (unsigned i = 0; i < clique->count; i++)
        (void)!(orderly ? library.destroy : library.communicator_abort)(clique->communicators[i]);
    if (!orderly)
        (void)!library.group_end();
    pthread_mutex_lock(&clique->mutex);
    event.now_ns = clock_monotonic_ns();
    (void)nccl_watch_feed(&clique->watch, &event);
    clique->ender_ended = true;
    pthread_cond_broadcast(&clique->changed);
    bool abandoned = clique->abandoned;
    pthread_mutex_unlock(&clique->mutex);
    if (abandoned)
        destroy(clique);
    return NULL;
}

/* Feed an event to the watch and act on the result. The mutex is held. */
static void feed(struct nccl_clique *clique, struct nccl_event event)
{
    event.now_ns = clock_monotonic_ns();
    enum nccl_action action = nccl_watch_feed(&clique->watch, &event);
    if (action == NCCL_DO_ABORT || action == NCCL_DO_DESTROY) {
        clique->ender_runs = !pthread_create(&clique->ender, NULL, end_all, clique);
        if (!clique->ender_runs)
            log_error("no thread to end NCCL's communicators");
    } else if (action == NCCL_DO_EXIT) {
        clique->options.hopeless(clique->options.context, clique->watch.reason);
    }
    if (action != NCCL_DO_NOTHING)
        pthread_cond_broadcast(&clique->changed);
}

static int state_of(const struct nccl_clique *clique, nccl_communicator communicator)
{
    int state = NCCL_RESULT_SUCCESS;
    int result = clique->library->state(communicator, &state);
    return result != NCCL_RESULT_SUCCESS ? result : state;
}

static void feed_result(struct nccl_clique *clique, int result)
{
    feed(clique, (struct nccl_event){
                     .type = NCCL_STATE, .result = result, .text = clique->library->text(result)});
}

/* Feed a peer's loss that the caller has learned of. The mutex is held. */
static void feed_lost(struct nccl_clique *clique)
{
    const struct nccl_clique_options *options = &clique->options;
    char reason[NCCL_REASON_SIZE];

    bool listens = clique->watch.phase == NCCL_OPEN || clique->watch.phase == NCCL_CLOSING;

    if (listens && options->lost && options->lost(options->context, reason))
        feed(clique, (struct nccl_event){.type = NCCL_FAULT, .text = reason});
}

/* Poll for errors that no thread waits for, and for late steps. */
static void *watch_over(void *context)
{
    struct nccl_clique *clique = context;

    pthread_mutex_lock(&clique->mutex);
    while (!clique->closing) {
        for (unsigned i = 0; i < clique->count && clique->watch.phase == NCCL_OPEN; i++) {
            int result = state_of(clique, clique->communicators[i]);
            if (result != NCCL_RESULT_SUCCESS)
                feed_result(clique, result);
        }
        feed_lost(clique);
        feed(clique, (struct nccl_event){.type = NCCL_TICK});
        pause_for(clique, WATCH_NS);
    }
    pthread_mutex_unlock(&clique->mutex);
    return NULL;
}

int nccl_clique_new(struct nccl_library *library, const struct nccl_clique_options *options,
                    struct nccl_clique **ret_clique)
{
    struct nccl_clique *clique = calloc(1, sizeof(*clique));

    if (!clique)
        return -ENOMEM;
    clique->library = library;
    clique->options = *options;
    nccl_watch_init(&clique->watch, options->close_timeout_ns, options->abort_timeout_ns);
    pthread_mutex_init(&clique->mutex, NULL);
    pthread_cond_init(&clique->changed, NULL);
    int status = -pthread_create(&clique->watcher, NULL, watch_over, clique);
    if (status) {
        destroy(clique);
        return status;
    }
    *ret_clique = clique;
    return 0;
}

void nccl_abort(struct nccl_clique *clique, const char *reason)
{
    pthread_mutex_lock(&clique->mutex);
    feed(clique, (struct nccl_event){.type = NCCL_FAULT, .text = reason});
    pthread_mutex_unlock(&clique->mutex);
}

bool nccl_ended(struct nccl_clique *clique)
{
    pthread_mutex_lock(&clique->mutex);
    bool ended = clique->watch.phase != NCCL_OPEN;
    pthread_mutex_unlock(&clique->mutex);
    return ended;
}

/* Return the first state of a communicator other than success. */
static int state_of_all(const struct nccl_clique *clique)
{
    int result = NCCL_RESULT_SUCCESS;

    for (unsigned i = 0; i < clique->count && result == NCCL_RESULT_SUCCESS; i++)
        result = state_of(clique, clique->communicators[i]);
    return result;
}

/* Finalize all communicators and wait for completion; do nothing after a fault. The mutex is
 * held. */
static void finalize_all(struct nccl_clique *clique)
{
    int result = NCCL_RESULT_SUCCESS;

    feed_lost(clique);
    feed(clique, (struct nccl_event){.type = NCCL_CLOSE, .text = "the generation has ended"});
    for (unsigned i = 0; i < clique->count && clique->watch.phase == NCCL_CLOSING; i++) {
        result = clique->library->finalize(clique->communicators[i]);
        if (result != NCCL_RESULT_SUCCESS)
            feed_result(clique, result);
    }
    while (clique->watch.phase == NCCL_CLOSING) {
        result = state_of_all(clique);
        if (result == NCCL_RESULT_SUCCESS) {
            feed(clique, (struct nccl_event){.type = NCCL_FINALIZED});
            break;
        }
        feed_result(clique, result);
        feed_lost(clique);
        if (clique->watch.phase == NCCL_CLOSING)
            pause_for(clique, POLL_NS);
    }
}

static bool ends(const struct nccl_clique *clique)
{
    return (clique->watch.phase == NCCL_ABORTING || clique->watch.phase == NCCL_DESTROYING) &&
           clique->ender_runs;
}

void nccl_clique_free(struct nccl_clique *clique)
{
    if (!clique)
        return;
    pthread_mutex_lock(&clique->mutex);
    finalize_all(clique);
    while (ends(clique))
        pause_for(clique, WATCH_NS);
    clique->closing = true;
    pthread_cond_broadcast(&clique->changed);
    pthread_mutex_unlock(&clique->mutex);
    pthread_join(clique->watcher, NULL);
    pthread_mutex_lock(&clique->mutex);
    clique->abandoned = clique->ender_runs && !clique->ender_ended;
    bool abandoned = clique->abandoned;
    pthread_t ender = clique->ender;
    pthread_mutex_unlock(&clique->mutex);
    if (abandoned) {
        pthread_detach(ender);
        return;
    }
    if (clique->ender_runs)
        pthread_join(ender, NULL);
    destroy(clique);
}

/* Wait until NCCL no longer touches the caller's buffers, or the abort is hopeless. The mutex is
 * held.
 */
static void await_abort(struct nccl_clique *clique)
{
    while (clique->watch.phase == NCCL_ABORTING)
        pause_for(clique, POLL_NS);
}

static int failure(struct nccl_clique *clique, struct error *error)
{
    await_abort(clique);
    return error_set(error, -ECONNRESET, "%s", clique->watch.reason);
}

/* Wait until the communicator has completed its last call. The mutex is held. */
static int settle(struct nccl_clique *clique, nccl_communicator communicator, int result,
                  struct error *error)
{
    while (clique->watch.phase == NCCL_OPEN) {
        if (result == NCCL_RESULT_SUCCESS || result == NCCL_RESULT_IN_PROGRESS)
            result = state_of(clique, communicator);
        feed_result(clique, result);
        if (clique->watch.phase == NCCL_OPEN && result == NCCL_RESULT_SUCCESS)
            return 0;
        feed_lost(clique);
        if (clique->watch.phase == NCCL_OPEN)
            pause_for(clique, POLL_NS);
    }
    return failure(clique, error);
}

static void begin(struct nccl_clique *clique, const char *step, uint64_t deadline_ns)
{
    feed(clique, (struct nccl_event){.type = NCCL_STEP, .text = step, .deadline_ns = deadline_ns});
}

static struct config make_config(const struct nccl_library *library)
{
    struct config config = {.size = sizeof(config),
                            .magic = CONFIG_MAGIC,
                            .version = CONFIG_VERSION,
                            .cga_cluster_size = UNDEFINED,
                            .ctas_min = UNDEFINED,
                            .ctas_max = CTAS_MAX};

    if (library->version_number < CONFIG_CTAS) {
        config.size = offsetof(struct config, ctas_min); /* padded */
        config.version = VERSION_MIN;
    }
    return config;
}

static int join(struct nccl_clique *clique, const struct unique_id *id, unsigned rank,
                unsigned rank_count, struct error *error)
{
    struct config config = make_config(clique->library);
    nccl_communicator *communicator = &clique->communicators[clique->count];
    int result = clique->library->init(communicator, (int)rank_count, *id, (int)rank, &config);

    if (*communicator)
        clique->count++; /* even a partly initialized communicator can be aborted */
    if (!*communicator) {
        feed_result(clique, result);
        return failure(clique, error);
    }
    return settle(clique, *communicator, result, error);
}

int nccl_join(struct nccl_clique *clique, const uint8_t id[NCCL_ID_SIZE], unsigned rank,
              unsigned rank_count, uint64_t deadline_ns, unsigned *ret_communicator,
              struct error *error)
{
    struct unique_id unique;
    int status = 0;

    memcpy(unique.bytes, id, NCCL_ID_SIZE);
    pthread_mutex_lock(&clique->mutex);
    unsigned number = clique->count;
    if (number == NCCL_COMMUNICATORS_MAX)
        status =
            error_set(error, -ENOSPC, "more than %d NCCL communicators", NCCL_COMMUNICATORS_MAX);
    if (!status && clique->watch.phase != NCCL_OPEN)
        status = failure(clique, error);
    if (!status) {
        begin(clique, "joining a communicator", deadline_ns);
        status = join(clique, &unique, rank, rank_count, error);
    }
    pthread_mutex_unlock(&clique->mutex);
    if (!status)
        *ret_communicator = number;
    return status;
}

/* Post the moves as one group. A group that was begun is always ended, also after an error inside
 * it. */
static int post(const struct nccl_library *library, nccl_communicator communicator,
                const struct nccl_move *moves, size_t move_count, void *stream)
{
    int result = library->group_start();

    if (result != NCCL_RESULT_SUCCESS)
        return result;
    for (size_t i = 0; i < move_count; i++) {
        const struct nccl_move *move = &moves[i];
        int one = move->receive ? library->receive(move->data, move->size_bytes, TYPE_BYTE,
                                                   (int)move->peer, communicator, stream)
                                : library->send(move->data, move->size_bytes, TYPE_BYTE,
                                                (int)move->peer, communicator, stream);
        if (result == NCCL_RESULT_SUCCESS && one != NCCL_RESULT_IN_PROGRESS)
            result = one;
    }
    int end = library->group_end();
    return result != NCCL_RESULT_SUCCESS ? result : end;
}

int nccl_exchange(struct nccl_clique *clique, unsigned communicator, const struct nccl_move *moves,
                  size_t move_count, void *stream, uint64_t deadline_ns, struct error *error)
{
    int status = 0;

    if (move_count > NCCL_MOVES_MAX)
        return error_set(error, -EINVAL, "%zu moves at once", move_count);
    pthread_mutex_lock(&clique->mutex);
    assert(communicator < clique->count);
    if (clique->watch.phase != NCCL_OPEN) {
        status = failure(clique, error);
    } else {
        nccl_communicator one = clique->communicators[communicator];
        begin(clique, "sending and receiving", deadline_ns);
        status = settle(clique, one, post(clique->library, one, moves, move_count, stream), error);
    }
    pthread_mutex_unlock(&clique->mutex);
    return status;
}

int nccl_wait(struct nccl_clique *clique, bool (*complete)(void *context), void *context,
              uint64_t deadline_ns, struct error *error)
{
    int status = 0;

    pthread_mutex_lock(&clique->mutex);
    while (!status && !complete(context)) {
        if (clique->watch.phase != NCCL_OPEN) {
            status = failure(clique, error);
        } else if (clock_monotonic_ns() >= deadline_ns) {
            feed(clique, (struct nccl_event){
                             .type = NCCL_FAULT,
                             .text = "NCCL: what was sent and received did not end in time"});
            await_abort(clique);
            status = error_set(error, -ETIMEDOUT, "%s", clique->watch.reason);
        } else {
            feed_lost(clique);
            pause_for(clique, POLL_NS);
        }
    }
    if (!status && clique->watch.phase != NCCL_OPEN) /* ended by the abort, not by the data */
        status = failure(clique, error);
    pthread_mutex_unlock(&clique->mutex);
    return status;
}

void nccl_guard(struct nccl_clique *clique, uint64_t deadline_ns)
{
    pthread_mutex_lock(&clique->mutex);
    begin(clique, "the device waits for a peer", deadline_ns);
    pthread_mutex_unlock(&clique->mutex);
}

int nccl_unguard(struct nccl_clique *clique, struct error *error)
{
    int status = 0;

    pthread_mutex_lock(&clique->mutex);
    if (clique->watch.phase == NCCL_OPEN)
        feed_result(clique, NCCL_RESULT_SUCCESS);
    else
        status = failure(clique, error);
    pthread_mutex_unlock(&clique->mutex);
    return status;
}
