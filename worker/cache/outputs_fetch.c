#include "worker/cache/outputs_fetch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/cache/first_times.h"

#define WANTED_MAX   4096            /* records waiting to be fetched */
#define SPACE_EVERY  64              /* records between two looks at the free space */
#define PACE_NS      (4 * NS_PER_MS) /* between two records: a firnd serves all workers of all nodes */
#define LOOK_NS      (NS_PER_SECOND / 2)
#define LOOK_BYTE_NS (NS_PER_SECOND >> 20) /* of marks: a megabyte a second */
#define MARKS_MEMORY ((size_t)32 << 20)    /* of all nodes */

/* The records of another node. */
struct other {
    uint8_t *marks;   /* zero: the node did not have the record when it was last asked */
    uint64_t look_ns; /* time of the next request for its marks */
};

struct outputs_fetch {
    struct checkpoint_remote *remote;
    struct output_file *file;
    struct output_file_shape shape;
    char name[CHECKPOINT_PROOF_SIZE];
    struct other others[OUTPUTS_FETCH_NODES];
    unsigned other_count;
    void *record;
    bool gave_up;
    uint64_t last_ns; /* when the last record was asked for */
    pthread_t thread;
    atomic_bool stop, over;
    atomic_uint_fast64_t count;

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    uint64_t wanted[WANTED_MAX]; /* a ring */
    unsigned first, wanted_count;
    unsigned older; /* of those, from before the last call of outputs_fetch_begin_step() */
    struct first_times times;
};

/* ---- the thread ---- */

/* Wait for a wanted record; false: the thread is to stop. */
static bool next_wanted(struct outputs_fetch *fetch, uint64_t *ret_index)
{
    pthread_mutex_lock(&fetch->lock);
    while (!atomic_load(&fetch->stop) && fetch->wanted_count == 0)
        pthread_cond_wait(&fetch->changed, &fetch->lock);
    bool goes_on = !atomic_load(&fetch->stop);
    if (goes_on) {
        *ret_index = fetch->wanted[fetch->first];
        fetch->first = (fetch->first + 1) % WANTED_MAX;
        fetch->wanted_count--;
        fetch->older -= fetch->older > 0;
    }
    pthread_mutex_unlock(&fetch->lock);
    return goes_on;
}

/* Read a part of another node's file. Return whether all of it arrived. */
static bool read_part(struct outputs_fetch *fetch, unsigned other, struct output_file_part part,
                      void *ret_data)
{
    struct error error = {0};
    size_t size = 0;

    int status = checkpoint_remote_read(fetch->remote, checkpoint_remote_name(fetch->remote, other),
                                        CHECKPOINT_REMOTE_FROZEN, fetch->name, part.offset,
                                        ret_data, part.size_bytes, &size, &error);
    return !status && size == part.size_bytes;
}

/* Ask a node again for its marks. A node that does not answer, or has no such file yet, has
 * none. */
static void look(struct outputs_fetch *fetch, unsigned index)
{
    const struct output_file_part part = output_file_marks(&fetch->shape);
    struct other *other = &fetch->others[index];

    if (!read_part(fetch, index, part, other->marks))
        memset(other->marks, 0, part.size_bytes);
    other->look_ns = clock_monotonic_ns() + LOOK_NS + part.size_bytes * LOOK_BYTE_NS;
}

/* Ask only one node: a record must not wait for many nodes that do not answer. */
static void look_at_the_longest_unseen(struct outputs_fetch *fetch)
{
    unsigned oldest = 0;

    for (unsigned i = 1; i < fetch->other_count; i++)
        if (fetch->others[i].look_ns < fetch->others[oldest].look_ns)
            oldest = i;
    if (fetch->other_count > 0 && fetch->others[oldest].look_ns <= clock_monotonic_ns())
        look(fetch, oldest);
}

static void note_time(struct outputs_fetch *fetch, uint64_t took_ns)
{
    pthread_mutex_lock(&fetch->lock);
    first_times_note(&fetch->times, took_ns);
    pthread_mutex_unlock(&fetch->lock);
    atomic_fetch_add(&fetch->count, 1);
}

/* Fetch nothing more. */
static void give_up(struct outputs_fetch *fetch, const char *why)
{
    log_warning("no more outputs of frozen layers are fetched from other nodes: %s", why);
    fetch->gave_up = true;
}

/* Fetch the record from one node. Return whether it is stored now. */
static bool fetch_from(struct outputs_fetch *fetch, unsigned other, uint64_t index)
{
    uint64_t began_ns = clock_monotonic_ns();

    if (!read_part(fetch, other, output_file_record(&fetch->shape, index), fetch->record))
        return false;
    int status = output_file_put(fetch->file, index, fetch->record);
    if (!status)
        note_time(fetch, clock_monotonic_ns() - began_ns);
    else if (status != -EBADMSG)
        give_up(fetch, strerror(-status));
    return !status;
}

static void keep_pace(struct outputs_fetch *fetch)
{
    uint64_t due_ns = fetch->last_ns + PACE_NS;
    const struct timespec due = {.tv_sec = (time_t)(due_ns / NS_PER_SECOND),
                                 .tv_nsec = (long)(due_ns % NS_PER_SECOND)};

    pthread_mutex_lock(&fetch->lock);
    while (!atomic_load(&fetch->stop) && clock_monotonic_ns() < due_ns)
        (void)pthread_cond_timedwait(&fetch->changed, &fetch->lock, &due);
    pthread_mutex_unlock(&fetch->lock);
    fetch->last_ns = clock_monotonic_ns();
}

static void serve(struct outputs_fetch *fetch, uint64_t index)
{
    look_at_the_longest_unseen(fetch);
    if (fetch->gave_up || output_file_has(fetch->file, index))
        return;
    if (atomic_load(&fetch->count) % SPACE_EVERY == 0 && !output_file_has_space(fetch->file)) {
        give_up(fetch, "less than a tenth of the file system is free");
        return;
    }
    keep_pace(fetch);
    for (unsigned i = 0; i < fetch->other_count; i++) {
        unsigned other = (unsigned)((index + i) % fetch->other_count); /* spread the requests */
        if (!fetch->others[other].marks[index])
            continue;
        if (fetch_from(fetch, other, index))
            return;
        fetch->others[other].marks[index] = 0;
    }
}

static void *run(void *context)
{
    struct outputs_fetch *fetch = context;
    uint64_t index;

    while (next_wanted(fetch, &index))
        serve(fetch, index);
    atomic_store(&fetch->over, true);
    return NULL;
}

/* ---- the worker's side ---- */

void outputs_fetch_begin_step(struct outputs_fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->first = (fetch->first + fetch->older) % WANTED_MAX;
    fetch->wanted_count -= fetch->older;
    fetch->older = fetch->wanted_count;
    pthread_mutex_unlock(&fetch->lock);
}

void outputs_fetch_want(struct outputs_fetch *fetch, uint64_t index)
{
    if (index >= fetch->shape.count)
        return;
    pthread_mutex_lock(&fetch->lock);
    if (fetch->wanted_count < WANTED_MAX) {
        fetch->wanted[(fetch->first + fetch->wanted_count++) % WANTED_MAX] = index;
        pthread_cond_signal(&fetch->changed);
    }
    pthread_mutex_unlock(&fetch->lock);
}

double outputs_fetch_typical_ms(struct outputs_fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    const struct first_times times = fetch->times;
    pthread_mutex_unlock(&fetch->lock);
    return first_times_are_known(&times) ? first_times_median_ms(&times) : 0;
}

uint64_t outputs_fetch_count(struct outputs_fetch *fetch)
{
    return atomic_load(&fetch->count);
}

/* ---- start and end ---- */

static void release(struct outputs_fetch *fetch)
{
    checkpoint_remote_free(fetch->remote);
    output_file_close(fetch->file);
    for (unsigned i = 0; i < fetch->other_count; i++)
        free(fetch->others[i].marks);
    free(fetch->record);
    free(fetch);
}

static int reach(struct outputs_fetch *fetch, const struct checkpoint_remote_options *others,
                 struct error *error)
{
    const struct output_file_part marks = output_file_marks(&fetch->shape);
    struct checkpoint_remote_options options = *others;
    size_t room = MARKS_MEMORY / (marks.size_bytes + 1);

    options.stop = &fetch->stop;
    options.node_count = (unsigned)MIN((size_t)MIN(options.node_count, OUTPUTS_FETCH_NODES), room);
    int status = checkpoint_remote_new(&options, &fetch->remote, error);
    for (unsigned i = 0; !status && i < options.node_count; i++) {
        fetch->others[i].marks = calloc(1, marks.size_bytes + 1);
        if (!fetch->others[i].marks)
            return error_set(error, -ENOMEM, "no memory for what node %s has",
                             options.nodes[i].name);
        fetch->other_count++;
    }
    return status;
}

/* Signals are blocked: the main thread handles them. */
static int start(struct outputs_fetch *fetch, struct error *error)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;

    pthread_mutex_init(&fetch->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&fetch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&fetch->thread, NULL, run, fetch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!problem)
        return 0;
    pthread_cond_destroy(&fetch->changed);
    pthread_mutex_destroy(&fetch->lock);
    return error_set(error, -problem, "no thread to fetch outputs: %s", strerror(problem));
}

int outputs_fetch_new(const struct outputs_fetch_file *file,
                      const struct checkpoint_remote_options *others,
                      struct outputs_fetch **ret_fetch, struct error *error)
{
    struct outputs_fetch *fetch = calloc(1, sizeof(*fetch));

    if (!fetch)
        return error_set(error, -ENOMEM, "no memory to fetch outputs");
    fetch->shape = file->shape;
    snprintf(fetch->name, sizeof(fetch->name), "%s", file->name);
    fetch->record =
        file->shape.count > 0 ? malloc(output_file_record(&file->shape, 0).size_bytes) : NULL;
    int status = fetch->record ? output_file_open(file->path, &file->shape, &fetch->file, error)
                               : error_set(error, -ENOMEM, "no memory for a record");
    if (!status)
        status = reach(fetch, others, error);
    if (!status)
        status = start(fetch, error);
    if (status)
        release(fetch);
    else
        *ret_fetch = fetch;
    return status;
}

void outputs_fetch_stop(struct outputs_fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    atomic_store(&fetch->stop, true);
    pthread_cond_signal(&fetch->changed);
    pthread_mutex_unlock(&fetch->lock);
}

bool outputs_fetch_is_over(struct outputs_fetch *fetch)
{
    return atomic_load(&fetch->over);
}

void outputs_fetch_free(struct outputs_fetch *fetch)
{
    if (!fetch)
        return;
    outputs_fetch_stop(fetch);
    pthread_join(fetch->thread, NULL);
    pthread_cond_destroy(&fetch->changed);
    pthread_mutex_destroy(&fetch->lock);
    release(fetch);
}
