#include "model/data/token_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)1 << 20)  /* stays in a core's cache from the check to the hash */
#define AHEAD_BYTES ((size_t)16 << 20) /* requested from the disk before a thread needs them */

/* Other slots of the node may be training, so this runs in the background on a part of the
 * cores. */
#define THREADS_MIN      2
#define THREADS_MAX      4
#define CORES_PER_THREAD 4
#define NICENESS         10
#define LOWEST_DISK_TURN (2 << 13 | 7) /* ioprio_set(2): best effort, the last of its levels */

/* Tokens of one extent. */
struct piece {
    uint64_t index; /* in the row */
    size_t extent, file;
    uint64_t first, count; /* from the start of the extent */
};

struct scan {
    const struct token_row *row;
    const struct token_row_options *options;
    struct token_scan_progress *progress;
    struct hash_stream *stream;
    struct error *error;
    pthread_mutex_t lock; /* guards all members below, @progress, @stream and @error */
    pthread_cond_t turned;
    struct piece next;
    uint64_t turn; /* the index of the piece to be hashed */
    int status;    /* of the first piece that failed */
};

struct reader {
    struct scan *scan;
    char *buffer;
    size_t file; /* the file of @descriptor */
    int descriptor;
};

static uint64_t extent_count(const struct token_row *row, size_t extent)
{
    uint64_t count;

    (void)token_row_span(row, row->extents[extent].first, &count);
    return count;
}

static const char *path_of(const struct scan *scan, size_t file)
{
    return scan->options->files->files[file].path;
}

/* Empty files have no extent. */
static void skip_empty_files(const struct token_row *row, struct piece *piece)
{
    while (piece->file < row->file_count && row->file_counts[piece->file] == 0)
        piece->file++;
}

static bool take_piece(struct scan *scan, struct piece *ret_piece)
{
    const struct token_row *row = scan->row;
    struct piece *next = &scan->next;

    pthread_mutex_lock(&scan->lock);
    bool taken = scan->status == 0 && next->extent < row->extent_count;
    if (taken) {
        uint64_t count = extent_count(row, next->extent);
        skip_empty_files(row, next);
        next->count = MIN(count - next->first, (uint64_t)(PIECE_BYTES / row->token_bytes));
        *ret_piece = *next;
        next->index++;
        next->first += next->count;
        if (next->first == count) {
            next->first = 0;
            next->extent++;
            next->file++;
        }
    }
    pthread_mutex_unlock(&scan->lock);
    return taken;
}

static int open_file(struct reader *reader, size_t file, struct error *error)
{
    const char *path = path_of(reader->scan, file);

    if (reader->descriptor >= 0 && reader->file == file)
        return 0;
    close_descriptor(&reader->descriptor);
    reader->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (reader->descriptor < 0)
        return error_set(error, -errno, "data: %s: %s", path, strerror(errno));
    reader->file = file;
    return 0;
}

/* The kernel reads ahead only for a single reader; keep the disk busy for all readers. */
static void read_ahead(const struct reader *reader, uint64_t offset, size_t size_bytes, bool first)
{
    uint64_t from = first ? offset : offset + AHEAD_BYTES;
    uint64_t length = first ? AHEAD_BYTES + size_bytes : size_bytes;

    (void)posix_fadvise(reader->descriptor, (off_t)from, (off_t)length, POSIX_FADV_WILLNEED);
}

static int read_piece(struct reader *reader, const struct piece *piece, const void **ret_tokens,
                      struct error *error)
{
    const struct token_row *row = reader->scan->row;
    const struct token_extent *extent = &row->extents[piece->extent];
    const char *tokens = (const char *)extent->tokens + (size_t)piece->first * row->token_bytes;
    size_t size_bytes = (size_t)piece->count * row->token_bytes;

    *ret_tokens = tokens;
    if (extent->map_bytes == 0)
        return 0; /* copied */
    *ret_tokens = reader->buffer;
    uint64_t offset = (uint64_t)(tokens - (const char *)extent->memory);
    int status = open_file(reader, piece->file, error);
    if (status < 0)
        return status;
    read_ahead(reader, offset, size_bytes, piece->first == 0);
    return token_row_read_file(path_of(reader->scan, piece->file), reader->descriptor, offset,
                               reader->buffer, size_bytes, error);
}

static void tell(struct token_scan_progress *progress, size_t size_bytes)
{
    const struct dataset_listener *listener = progress->listener;

    progress->done_bytes += size_bytes;
    if (listener->reading)
        listener->reading(listener->context, progress->done_bytes, progress->total_bytes);
}

/* Wait until all pieces before this one are hashed; then hash it, or record its error. */
static void take_turn(struct scan *scan, const struct piece *piece, const void *tokens, int status,
                      const struct error *error)
{
    size_t size_bytes = (size_t)piece->count * scan->row->token_bytes;

    pthread_mutex_lock(&scan->lock);
    while (scan->status == 0 && scan->turn != piece->index)
        pthread_cond_wait(&scan->turned, &scan->lock);
    if (scan->status == 0 && status < 0) {
        scan->status = status;
        if (scan->error)
            *scan->error = *error;
    } else if (scan->status == 0) {
        hash_stream_add(scan->stream, tokens, size_bytes);
        scan->turn++;
        tell(scan->progress, size_bytes);
    }
    pthread_cond_broadcast(&scan->turned);
    pthread_mutex_unlock(&scan->lock);
}

static void read_pieces(struct reader *reader)
{
    struct scan *scan = reader->scan;
    const struct token_row *row = scan->row;
    struct piece piece;

    while (take_piece(scan, &piece)) {
        struct error error = {0};
        const void *tokens;
        int status = read_piece(reader, &piece, &tokens, &error);
        if (status == 0)
            status =
                token_row_check(path_of(scan, piece.file), tokens, row->token_bytes, piece.first,
                                (size_t)piece.count, scan->options->vocab, &error);
        take_turn(scan, &piece, tokens, status, &error);
    }
    close_descriptor(&reader->descriptor);
}

static void *run(void *argument)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    (void)syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, LOWEST_DISK_TURN);
    read_pieces(argument);
    return NULL;
}

static unsigned count_threads(void)
{
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;

    return MIN(MAX((unsigned)count / CORES_PER_THREAD, (unsigned)THREADS_MIN),
               (unsigned)THREADS_MAX);
}

/* If no thread can be started, the caller reads by itself. */
static void run_readers(struct scan *scan, char *buffers)
{
    struct reader readers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    unsigned count = count_threads(), started = 0;

    for (unsigned i = 0; i < count; i++)
        readers[i] = (struct reader){
            .scan = scan, .buffer = buffers + (size_t)i * PIECE_BYTES, .descriptor = -1};
    while (started < count && pthread_create(&threads[started], NULL, run, &readers[started]) == 0)
        started++;
    if (started == 0)
        read_pieces(&readers[0]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

int token_scan_run(const struct token_row *row, const struct token_row_options *options,
                   struct token_scan_progress *progress, struct hash_stream *stream,
                   struct error *error)
{
    if (!row->unchecked) {
        token_row_hash(row, stream);
        return 0;
    }
    assert(row->file_count == options->files->count);
    AUTO_FREE char *buffers = malloc(THREADS_MAX * PIECE_BYTES);
    if (!buffers)
        return error_set(error, -ENOMEM, "data: no memory to read it");
    struct scan scan = {.row = row,
                        .options = options,
                        .progress = progress,
                        .stream = stream,
                        .error = error,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .turned = PTHREAD_COND_INITIALIZER};
    run_readers(&scan, buffers);
    pthread_cond_destroy(&scan.turned);
    pthread_mutex_destroy(&scan.lock);
    return scan.status;
}
