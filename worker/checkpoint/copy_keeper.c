#include "worker/checkpoint/copy_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "checkpoint/replicate/copy_place.h"

struct copy_keeper {
    pthread_t thread;
    bool done; /* written by the thread, with release */
    struct replication *replication;
    struct replication_receipt receipt;
    int status;
    struct error error;
};

/* Return true for an error of another node, which does not show a fault of this node's disk. */
static int of_another(int status)
{
    return status == -EIO ? -EREMOTEIO : status;
}

static int take_manifest(struct copy_keeper *keeper, const struct replication_seal *seal)
{
    struct replication *replication = keeper->replication;
    const char *root = replication->plan->checkpoints.copy_nodes[0].node;
    unsigned tries = 0;
    int status;

    do
        status = checkpoint_take_manifest(&replication->local, root, seal->sha256, &keeper->error);
    while (replication_tries_again(replication, status, &tries));
    return status;
}

static int keep(struct copy_keeper *keeper)
{
    struct replication *replication = keeper->replication;
    struct replication_seal seal;
    char path[1024];
    int status = replication_receive(replication, &keeper->receipt, &keeper->error);

    if (!status && keeper->receipt.problem[0])
        log_warning("a copy of a checkpoint is missing here: %s", keeper->receipt.problem);
    if (!status)
        status = replication_write_receipt(replication, &keeper->receipt, &keeper->error);
    if (!status)
        status = of_another(replication_await_seal(replication, &seal, &keeper->error));
    if (!status)
        status = of_another(take_manifest(keeper, &seal));
    if (!status)
        status = replication_place(replication, &seal, path, &keeper->error);
    return status;
}

static void *run(void *argument)
{
    struct copy_keeper *keeper = argument;

    keeper->status = keep(keeper);
    __atomic_store_n(&keeper->done, true, __ATOMIC_RELEASE);
    return NULL;
}

struct copy_keeper *copy_keeper_start(struct replication *replication)
{
    struct copy_keeper *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return NULL;
    keeper->replication = replication;
    if (!pthread_create(&keeper->thread, NULL, run, keeper))
        return keeper;
    free(keeper);
    return NULL;
}

bool copy_keeper_done(const struct copy_keeper *keeper)
{
    return __atomic_load_n(&keeper->done, __ATOMIC_ACQUIRE);
}

int copy_keeper_finish(struct copy_keeper *keeper, struct error *error)
{
    pthread_join(keeper->thread, NULL);
    int status = keeper->status;

    if (status && error)
        *error = keeper->error;
    free(keeper);
    return status;
}
