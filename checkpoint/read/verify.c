/*
 * Verify a checkpoint: read every chunk of every file past the page cache on a few threads, because
 * one read at a time does not keep a disk busy. One counter hands out chunks in order. After the
 * first bad chunk only earlier chunks matter, so the reported chunk is the first bad one,
 * independent of timing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "checkpoint/read/reader_state.h"

#define THREADS   4
#define ALIGNMENT 4096

struct scrub {
    const struct checkpoint_reader *reader;
    int *direct;         /* a descriptor for each file */
    size_t *first_chunk; /* number of each file's first chunk, counted over all files */
    size_t chunk_count;
    atomic_size_t next;
    _Atomic uint64_t done_bytes;
    pthread_mutex_t lock; /* guards the result */
    struct bad {
        size_t chunk; /* SIZE_MAX: none */
        struct error error;
    } first, first_of_metrics; /* the latter stops nothing */
};

struct scrubber {
    struct scrub *scrub;
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    uint64_t total_bytes;
};

static size_t file_of(const struct scrub *scrub, size_t number)
{
    size_t low = 0,
           high = scrub->reader->file_count; /* the last file that starts at or before the chunk */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (scrub->first_chunk[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void report(struct scrub *scrub, size_t number, const struct error *error)
{
    const struct manifest_file *file = scrub->reader->files[file_of(scrub, number)].entry;
    struct bad *bad = reader_is_metrics(file->name) ? &scrub->first_of_metrics : &scrub->first;
    pthread_mutex_lock(&scrub->lock);
    if (number < bad->chunk)
        *bad = (struct bad){number, *error};
    pthread_mutex_unlock(&scrub->lock);
}

static bool still_wanted(struct scrub *scrub, size_t number)
{
    pthread_mutex_lock(&scrub->lock);
    bool wanted = number < scrub->first.chunk;
    pthread_mutex_unlock(&scrub->lock);
    return wanted;
}

static void *scrub_chunks(void *argument)
{
    const struct scrubber *scrubber = argument;
    struct scrub *scrub = scrubber->scrub;
    AUTO_FREE uint8_t *buffer = aligned_alloc(ALIGNMENT, MANIFEST_CHUNK_BYTES);
    struct error error = {0};
    size_t number;
    while ((number = atomic_fetch_add(&scrub->next, 1)) < scrub->chunk_count &&
           still_wanted(scrub, number)) {
        size_t index = file_of(scrub, number);
        const struct reader_file *file = &scrub->reader->files[index];
        size_t chunk = number - scrub->first_chunk[index];
        int status = !buffer
                         ? error_set(&error, -ENOMEM, "%s: no memory to verify it", file->path)
                         : reader_check_chunk(file, scrub->direct[index], chunk, buffer, &error);
        if (status != 0)
            report(scrub, number, &error);
        uint64_t size = reader_chunk_bytes(file, chunk);
        uint64_t done = atomic_fetch_add(&scrub->done_bytes, size) + size;
        if (scrubber->progress)
            scrubber->progress(scrubber->context, done, scrubber->total_bytes);
    }
    return NULL;
}

/* Try O_DIRECT, else use the page cache. */
static int open_direct(const struct reader_file *file, struct error *error)
{
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor < 0 && errno == EINVAL)
        descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        int status = -errno;
        return error_set(error, status, "%s: %s", file->path, strerror(-status));
    }
    return descriptor;
}

static int open_all(struct scrub *scrub, struct error *error)
{
    size_t count = scrub->reader->file_count;
    scrub->direct = calloc(count + 1, sizeof(*scrub->direct));
    scrub->first_chunk = calloc(count + 1, sizeof(*scrub->first_chunk));
    if (!scrub->direct || !scrub->first_chunk)
        return error_set(error, -ENOMEM, "no memory to verify a checkpoint");
    for (size_t i = 0; i < count; i++)
        scrub->direct[i] = -1;
    for (size_t i = 0; i < count; i++) {
        scrub->first_chunk[i] = scrub->chunk_count;
        scrub->chunk_count += scrub->reader->files[i].entry->chunk_count;
        scrub->direct[i] = open_direct(&scrub->reader->files[i], error);
        if (scrub->direct[i] >= 0)
            continue;
        if (!reader_is_metrics(scrub->reader->files[i].entry->name))
            return scrub->direct[i];
        scrub->first_of_metrics = (struct bad){0, *error};
        error_clear(error);
    }
    return 0;
}

static void close_all(struct scrub *scrub)
{
    for (size_t i = 0; scrub->direct && i < scrub->reader->file_count; i++)
        close_descriptor(&scrub->direct[i]);
    free(scrub->direct);
    free(scrub->first_chunk);
    pthread_mutex_destroy(&scrub->lock);
}

static void run_threads(struct scrub *scrub, struct scrubber *foreground)
{
    pthread_t threads[THREADS - 1];
    struct scrubber background = {.scrub = scrub};
    unsigned started = 0;
    while (started < ARRAY_COUNT(threads) &&
           pthread_create(&threads[started], NULL, scrub_chunks, &background) == 0)
        started++;
    scrub_chunks(foreground);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

int checkpoint_verify(struct checkpoint_reader *reader,
                      void (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                      struct error *error)
{
    struct scrub scrub = {
        .reader = reader, .first.chunk = SIZE_MAX, .first_of_metrics.chunk = SIZE_MAX};
    struct scrubber foreground = {.scrub = &scrub, .progress = progress, .context = context};
    pthread_mutex_init(&scrub.lock, NULL);
    for (size_t i = 0; i < reader->file_count; i++)
        foreground.total_bytes += reader->files[i].entry->size_bytes;
    int status = open_all(&scrub, error);
    if (status == 0) {
        run_threads(&scrub, &foreground);
        if (scrub.first.chunk != SIZE_MAX)
            status = error_set(error, scrub.first.error.code, "%s", scrub.first.error.text);
        else if (progress)
            progress(context, foreground.total_bytes, foreground.total_bytes);
    }
    if (status == 0 && scrub.first_of_metrics.chunk != SIZE_MAX) {
        *error = scrub.first_of_metrics.error;
        status = CHECKPOINT_METRICS_BAD;
    }
    close_all(&scrub);
    return status;
}
