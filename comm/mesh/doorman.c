#include "comm/mesh/doorman.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "comm/mesh/tcp.h"

#define LOOK_NS (NS_PER_SECOND / 2) /* between two looks at the queue */

struct mesh_doorman {
    int listener;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool rests, ends;
};

static void wait_a_moment(struct mesh_doorman *doorman)
{
    uint64_t due_ns = clock_monotonic_ns() + LOOK_NS;
    const struct timespec due = {.tv_sec = (time_t)(due_ns / NS_PER_SECOND),
                                 .tv_nsec = (long)(due_ns % NS_PER_SECOND)};

    (void)pthread_cond_timedwait(&doorman->changed, &doorman->lock, &due);
}

static void *run(void *argument)
{
    struct mesh_doorman *doorman = argument;

    pthread_mutex_lock(&doorman->lock);
    while (!doorman->ends) {
        if (doorman->rests) {
            pthread_cond_wait(&doorman->changed, &doorman->lock);
            continue;
        }
        tcp_thin(doorman->listener);
        wait_a_moment(doorman);
    }
    pthread_mutex_unlock(&doorman->lock);
    return NULL;
}

static void destroy(struct mesh_doorman *doorman)
{
    pthread_cond_destroy(&doorman->changed);
    pthread_mutex_destroy(&doorman->lock);
    free(doorman);
}

int mesh_doorman_new(int listener, struct mesh_doorman **ret_doorman)
{
    struct mesh_doorman *doorman = calloc(1, sizeof(*doorman));
    pthread_condattr_t monotonic;

    if (!doorman)
        return -ENOMEM;
    doorman->listener = listener;
    pthread_mutex_init(&doorman->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&doorman->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int status = -pthread_create(&doorman->thread, NULL, run, doorman);
    if (status)
        destroy(doorman);
    else
        *ret_doorman = doorman;
    return status;
}

static void tell(struct mesh_doorman *doorman, bool *member, bool value)
{
    pthread_mutex_lock(&doorman->lock);
    *member = value;
    pthread_cond_signal(&doorman->changed);
    pthread_mutex_unlock(&doorman->lock);
}

void mesh_doorman_free(struct mesh_doorman *doorman)
{
    if (!doorman)
        return;
    tell(doorman, &doorman->ends, true);
    pthread_join(doorman->thread, NULL);
    destroy(doorman);
}

void mesh_doorman_rest(struct mesh_doorman *doorman, bool rests)
{
    if (doorman)
        tell(doorman, &doorman->rests, rests);
}
