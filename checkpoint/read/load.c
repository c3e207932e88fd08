#include "checkpoint/read/load.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/read/load_lane.h"
#include "checkpoint/read/reader_open.h"

#define DEPTH_DEFAULT 8
#define BLOCK_DEFAULT ((size_t)1 << 20)

struct lane_thread {
    struct load *load;
    const struct reader_file *files;
};

static void *thread_main(void *argument)
{
    const struct lane_thread *thread = argument;
    pthread_setname_np(pthread_self(), "restore");
    load_lane_run(thread->load, thread->files);
    return NULL;
}

/* Open the same file that was checked when the checkpoint was opened, even if its name has
 * changed. */
static int open_direct(const struct reader_file *file)
{
    char path[64];
    if (file->descriptor < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->descriptor);
    return open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
}

static int open_files(const struct checkpoint_reader *reader, struct load *load)
{
    load->direct = calloc(reader->file_count + 1, sizeof(*load->direct));
    if (!load->direct)
        return -ENOMEM;
    for (size_t i = 0; i < reader->file_count; i++)
        load->direct[i] = -1;
    for (unsigned i = 0; i < load->plan.job_count; i++) {
        const struct load_job *job = &load->plan.jobs[i];
        int *direct = &load->direct[job->file - reader->files];
        if (job->direct && *direct < 0)
            *direct = open_direct(job->file); /* refused: use the page cache */
    }
    return 0;
}

static void close_files(const struct checkpoint_reader *reader, struct load *load)
{
    for (size_t i = 0; load->direct && i < reader->file_count; i++)
        close_descriptor(&load->direct[i]);
    free(load->direct);
}

static unsigned threads_wanted(const struct load *load, unsigned asked)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned wanted = asked != 0 ? asked : (unsigned)MAX(processors, 1l);
    return MAX(MIN(MIN(wanted, (unsigned)LOAD_THREADS_MAX), load->plan.job_count), 1u);
}

/* Block signals: the process's main thread handles them. */
static void run_lanes(const struct checkpoint_reader *reader, struct load *load, unsigned count)
{
    struct lane_thread self = {load, reader->files};
    pthread_t threads[LOAD_THREADS_MAX - 1];
    unsigned started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < count && pthread_create(&threads[started], NULL, thread_main, &self) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    load_lane_run(load, reader->files);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* The remaining tensors, read one at a time. With copies, several are read in parallel, because
 * most of the time is spent waiting for other nodes. */
struct rest {
    struct checkpoint_reader *reader;
    const struct load *load;
    unsigned count;
    pthread_mutex_t lock; /* guards the members below */
    unsigned next;
    int status; /* error of the first failed wish, in the order of the wishes */
    unsigned failed;
    struct error error;
};

static unsigned take_rest(struct rest *rest)
{
    pthread_mutex_lock(&rest->lock);
    while (rest->next < rest->count && rest->load->met && rest->load->met[rest->next])
        rest->next++;
    unsigned taken = rest->status != 0 ? rest->count : rest->next;
    rest->next++;
    pthread_mutex_unlock(&rest->lock);
    return taken;
}

static void fail_rest(struct rest *rest, unsigned index, int status, const struct error *error)
{
    pthread_mutex_lock(&rest->lock);
    if (rest->status == 0 || index < rest->failed) {
        rest->status = status;
        rest->failed = index;
        rest->error = *error;
    }
    pthread_mutex_unlock(&rest->lock);
}

static void *read_tensors(void *argument)
{
    struct rest *rest = argument;
    for (unsigned i; (i = take_rest(rest)) < rest->count;) {
        const struct checkpoint_wish *wish = &rest->load->wishes[i];
        struct error error = {0};
        int status =
            checkpoint_read(rest->reader, wish->name, wish->role, wish->data, wish->count, &error);
        if (status != 0)
            fail_rest(rest, i, status, &error);
        else if (rest->load->listener.loaded)
            rest->load->listener.loaded(rest->load->listener.context, wish->count * sizeof(float));
    }
    return NULL;
}

static void count_rest(const struct load *load, unsigned count,
                       struct checkpoint_load_result *result)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t size_bytes = load->wishes[i].count * sizeof(float);
        bool left = !load->met || !load->met[i];
        result->wanted_bytes += size_bytes;
        result->read_bytes += left ? size_bytes : 0;
        result->careful += left;
    }
}

static int read_rest(struct checkpoint_reader *reader, const struct load *load, unsigned count,
                     struct checkpoint_load_result *result, struct error *error)
{
    struct rest rest = {.reader = reader, .load = load, .count = count};
    pthread_t threads[LOAD_THREADS_MAX - 1];
    unsigned started = 0;
    sigset_t all, before;
    count_rest(load, count, result);
    pthread_mutex_init(&rest.lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (reader->remote && started < ARRAY_COUNT(threads) &&
           pthread_create(&threads[started], NULL, read_tensors, &rest) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    read_tensors(&rest);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&rest.lock);
    return rest.status == 0 ? 0 : error_set(error, rest.status, "%s", rest.error.text);
}

/* Open and check the files that the reader has only looked at. A tensor that no file has is left to
 * checkpoint_read(), which reports it. */
static int open_wanted(struct checkpoint_reader *reader, const struct checkpoint_wish *wishes,
                       unsigned count, struct error *error)
{
    int status = 0;

    for (unsigned i = 0; status == 0 && i < count; i++) {
        const struct manifest_tensor *tensor =
            reader_find_tensor(reader, wishes[i].name, wishes[i].role);
        if (tensor)
            status = reader_open_file(reader, reader_find_file(reader, tensor->file), error);
    }
    return status;
}

int checkpoint_load(struct checkpoint_reader *reader, const struct checkpoint_load_options *options,
                    const struct checkpoint_wish *wishes, unsigned count,
                    struct checkpoint_load_result *ret_result, struct error *error)
{
    struct checkpoint_load_result result = {0};
    struct load load = {
        .io = options->io,
        .depth = options->depth != 0 ? MIN(options->depth, (unsigned)IO_DEPTH_MAX) : DEPTH_DEFAULT,
        .block_bytes = options->block_bytes != 0 ? options->block_bytes : BLOCK_DEFAULT,
        .wishes = wishes,
        .listener = options->listener,
        .met = calloc(count + 1, sizeof(bool)),
    };
    assert(MANIFEST_CHUNK_BYTES % load.block_bytes == 0 && load.block_bytes % 4096 == 0);
    int status = open_wanted(reader, wishes, count, error);
    if (status != 0)
        goto out;
    /* If memory is short, read with checkpoint_read() instead. */
    if (load.met && load_plan_make(reader, wishes, count, &load.plan) == 0 &&
        open_files(reader, &load) == 0)
        run_lanes(reader, &load, threads_wanted(&load, options->thread_count));
    result.read_bytes = load.read_bytes;
    status = read_rest(reader, &load, count, &result, error);
    close_files(reader, &load);
    load_plan_done(&load.plan);
out:
    free(load.met);
    if (ret_result != NULL)
        *ret_result = result;
    return status;
}
