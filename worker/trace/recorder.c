#include "worker/trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "elastic/messages/trace_ring.h"
#include "elastic/planner/process_memory.h"

static_assert(TRACE_RING_BYTES <= PROCESS_TRACE_BYTES, "plans count it");

#define SHORTEST_NS    NS_PER_US
#define PATH_SIZE      1024
#define BCACHEFS_MAGIC 0xca451a4e

struct recorder {
    struct trace_head *head;  /* mapped; the spans follow */
    struct trace_span *spans; /* (TRACE_RING_SPANS,) */
    uint64_t number;          /* of the last span */
    unsigned turn;            /* of updates of the head */
    uint64_t generation;
    uint16_t stage, replica;
};

static int64_t unix_offset_ns(void)
{
    uint64_t monotonic_ns = clock_monotonic_ns();

    return (int64_t)(clock_unix_ns() - monotonic_ns);
}

/* ---- the file ---- */

static void path_of(const struct recorder_options *options, unsigned age, char ret_path[PATH_SIZE])
{
    char name[TRACE_RING_NAME_SIZE];

    trace_ring_name(options->slot, age, name);
    snprintf(ret_path, PATH_SIZE, "%s/%s", options->folder, name);
}

/* Blocks allocated now can be written later on a full disk. A copy-on-write file system does not
 * guarantee this, and the kernel would kill the worker at a store. */
static int allocate(int file)
{
    struct statfs system;

    if (fstatfs(file, &system))
        return -errno;
    if (system.f_type == BTRFS_SUPER_MAGIC || system.f_type == BCACHEFS_MAGIC)
        return -ENOTSUP;
    return -posix_fallocate(file, 0, (off_t)TRACE_RING_BYTES);
}

/* If the ring is locked, none of its pages is read back from the disk while a step waits. The lock
 * is optional. */
static int map(int file, struct recorder *recorder)
{
    uint8_t *ring =
        mmap(NULL, TRACE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);

    if (ring == MAP_FAILED)
        return -errno;
    int ignored = mlock(ring, TRACE_RING_BYTES);
    (void)ignored;
    recorder->head = (struct trace_head *)ring;
    recorder->spans = (struct trace_span *)(ring + TRACE_RING_HEAD_BYTES);
    return 0;
}

static int make_file(const char *path, struct recorder *recorder)
{
    AUTO_CLOSE int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (file < 0)
        return -errno;
    int status = allocate(file);
    return status ? status : map(file, recorder);
}

static bool is_worth_keeping(const char *path)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t bytes[sizeof(struct trace_head)];
    struct trace_facts facts;
    ssize_t size_bytes = file < 0 ? -1 : pread(file, bytes, sizeof(bytes), 0);

    return size_bytes > 0 && !trace_head_decode(bytes, (size_t)size_bytes, &facts, NULL) &&
           facts.newest_step > 0;
}

/* Give the ring of this worker its name. Rings of workers before it become older by one. */
static int take_place(const struct recorder_options *options, const char *made)
{
    char path[PATH_SIZE], older[PATH_SIZE];

    path_of(options, 0, path);
    if (is_worth_keeping(path))
        for (unsigned age = TRACE_RINGS_MAX - 1; age > 0; age--) {
            path_of(options, age, older);
            path_of(options, age - 1, path);
            if (rename(path, older) && errno != ENOENT)
                return -errno;
        }
    return rename(made, path) ? -errno : 0;
}

int recorder_open(const struct recorder_options *options, struct recorder **ret_recorder,
                  struct error *error)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));
    char made[PATH_SIZE];

    if (!recorder)
        return error_set(error, -ENOMEM, "no memory for the trace");
    snprintf(made, sizeof(made), "%s/trace-%u.new", options->folder, options->slot);
    int status = make_file(made, recorder);
    if (!status) {
        trace_head_init(recorder->head, (unsigned)getpid());
        trace_head_update(recorder->head, 0, unix_offset_ns(), 0);
        status = take_place(options, made);
    }
    if (status) {
        unlink(made);
        recorder_close(recorder);
        return error_set(error, status, "%s: %s", made, strerror(-status));
    }
    *ret_recorder = recorder;
    return 0;
}

void recorder_close(struct recorder *recorder)
{
    if (!recorder)
        return;
    if (recorder->head)
        munmap(recorder->head, TRACE_RING_BYTES);
    free(recorder);
}

/* ---- spans ---- */

void recorder_enter(struct recorder *recorder, uint64_t generation, unsigned stage,
                    unsigned replica)
{
    if (!recorder)
        return;
    recorder->generation = generation;
    recorder->stage = (uint16_t)stage;
    recorder->replica = (uint16_t)replica;
}

void recorder_applied(struct recorder *recorder, uint64_t step)
{
    if (!recorder)
        return;
    trace_head_update(recorder->head, ++recorder->turn, unix_offset_ns(), step);
}

void recorder_add(struct recorder *recorder, uint64_t begin_ns, struct trace_span span)
{
    if (!recorder)
        return;
    span.duration_ns = clock_monotonic_ns() - begin_ns;
    if (span.duration_ns < SHORTEST_NS)
        return;
    span.number = ++recorder->number;
    span.begin_ns = begin_ns;
    span.generation = recorder->generation;
    span.stage = recorder->stage;
    span.replica = recorder->replica;
    trace_span_seal(&span);
    recorder->spans[(span.number - 1) % TRACE_RING_SPANS] = span;
}

void recorder_add_kind(struct recorder *recorder, uint64_t begin_ns, enum trace_kind kind,
                       uint64_t step)
{
    recorder_add(recorder, begin_ns,
                 (struct trace_span){.kind = (uint16_t)kind, .step = step, .lane = TRACE_NO_LANE});
}
