/*
 * A lane's blocks form a ring: posted at the tail, verified at the head. Completions arrive in any
 * order; verification follows the order of the file, because a tensor's hash does. After a failed
 * read the rest of the job is skipped: its tensors are not marked as met, and checkpoint_read()
 * loads them.
 */
#include "checkpoint/read/load_lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT   ((uint64_t)4096)
#define HUGE_PAGE   ((size_t)2 << 20)
#define PIECE_BYTES ((size_t)128 << 10) /* small enough for the second pass to hit the cache */

struct lane_block {
    uint8_t *data;
    const struct load_job *job;
    uint64_t begin, end; /* wanted bytes of the file in the block */
    size_t skip_bytes;   /* unwanted bytes before them, from rounding */
    bool done, failed;
};

struct lane {
    struct load *load;
    const struct reader_file *files;
    struct io_context *context;
    uint8_t *arena;
    struct lane_block blocks[IO_DEPTH_MAX];
    unsigned head, count;
    const struct load_job *posting; /* NULL: take the next job */
    uint64_t posted_to;
    /* Verification: */
    const struct load_job *job;
    unsigned tensor; /* index in the plan of the tensor being filled */
    bool failed;     /* the job has failed */
    struct hash_stream *hash;
    uint32_t crc; /* of the current chunk so far, if it lies completely in the tensor */
};

static bool take_job(struct lane *lane)
{
    unsigned number = atomic_fetch_add(&lane->load->next_job, 1);
    if (number >= lane->load->plan.job_count)
        return false;
    lane->posting = &lane->load->plan.jobs[number];
    lane->posted_to = lane->posting->begin;
    return true;
}

static int descriptor_of(const struct lane *lane, const struct load_job *job, bool *ret_direct)
{
    int direct = lane->load->direct[job->file - lane->files];
    *ret_direct = job->direct && direct >= 0;
    return *ret_direct ? direct : job->file->descriptor;
}

/* Return false if nothing is left to post. */
static bool post_next(struct lane *lane)
{
    struct load *load = lane->load;
    if (!lane->posting && !take_job(lane))
        return false;
    const struct load_job *job = lane->posting;
    unsigned index = (lane->head + lane->count) % load->depth;
    struct lane_block *block = &lane->blocks[index];
    bool direct;
    int descriptor = descriptor_of(lane, job, &direct);
    uint64_t next = (lane->posted_to / load->block_bytes + 1) * load->block_bytes;
    uint64_t from = direct ? lane->posted_to / ALIGNMENT * ALIGNMENT : lane->posted_to;
    block->job = job;
    block->begin = lane->posted_to;
    block->end = MIN(next, job->end);
    block->skip_bytes = (size_t)(block->begin - from);
    block->done = block->failed = false;
    size_t needed = (size_t)(block->end - from);
    size_t room = direct ? (needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : needed;
    if (load->io->read(lane->context, descriptor, block->data, room, needed, from, index) != 0)
        block->done = block->failed = true;
    atomic_fetch_add_explicit(&load->read_bytes, room, memory_order_relaxed);
    lane->count++;
    lane->posted_to = block->end;
    if (block->end == job->end)
        lane->posting = NULL;
    return true;
}

static void await_head(struct lane *lane)
{
    struct lane_block *head = &lane->blocks[lane->head];
    while (!head->done) {
        uint64_t user;
        int status = lane->load->io->drain(lane->context, true, &user);
        assert(status != 0 && user < lane->load->depth); /* it is in flight */
        lane->blocks[user].done = true;
        lane->blocks[user].failed = status < 0;
    }
}

static void begin_tensor(struct lane *lane)
{
    hash_stream_reset(lane->hash);
    lane->crc = 0;
}

/* Return true if the chunk ends here, lies completely in the tensor, and differs from the
 * manifest. */
static bool chunk_is_bad(struct lane *lane, const struct load_tensor *at, uint64_t position)
{
    uint64_t begin = (position - 1) / MANIFEST_CHUNK_BYTES * MANIFEST_CHUNK_BYTES;
    uint64_t end = begin + reader_chunk_bytes(at->file, (size_t)(begin / MANIFEST_CHUNK_BYTES));
    if (position < end)
        return false;
    uint32_t crc = lane->crc;
    lane->crc = 0;
    return begin >= at->tensor->offset &&
           crc != at->file->entry->chunk_crcs[begin / MANIFEST_CHUNK_BYTES];
}

static void end_tensor(struct lane *lane, const struct load_tensor *at, bool bad)
{
    struct load *load = lane->load;
    load->met[at->wish] = !bad && hash128_equal(hash_stream_result(lane->hash), at->tensor->hash);
}

/* Consume bytes of @data, which starts at @position in the file: at most one tensor and one
 * piece. */
static size_t accept_piece(struct lane *lane, const uint8_t *data, uint64_t position, size_t room)
{
    const struct load_tensor *at = &lane->load->plan.tensors[lane->tensor];
    uint64_t done = position - at->tensor->offset;
    uint64_t chunk_end = (position / MANIFEST_CHUNK_BYTES + 1) * MANIFEST_CHUNK_BYTES;
    uint64_t left = MIN(at->tensor->size_bytes - done, chunk_end - position);
    size_t size = MIN(MIN(room, PIECE_BYTES), (size_t)left);
    uint8_t *to = (uint8_t *)lane->load->wishes[at->wish].data + done;
    if (done == 0)
        begin_tensor(lane);
    memcpy(to, data, size);
    lane->crc = hash_crc32c(lane->crc, to, size);
    hash_stream_add(lane->hash, to, size);
    if (chunk_is_bad(lane, at, position + size))
        lane->failed = true; /* rare: the rest of the job is read by checkpoint_read() too */
    if (done + size == at->tensor->size_bytes) {
        end_tensor(lane, at, lane->failed);
        lane->tensor++;
    }
    return size;
}

static void accept_block(struct lane *lane, const struct lane_block *block)
{
    if (lane->job != block->job) {
        lane->job = block->job;
        lane->tensor = block->job->first;
        lane->failed = false;
    }
    lane->failed = lane->failed || block->failed;
    const uint8_t *data = block->data + block->skip_bytes;
    for (uint64_t position = block->begin; !lane->failed && position < block->end;) {
        size_t size = accept_piece(lane, data, position, (size_t)(block->end - position));
        data += size;
        position += size;
    }
    if (!lane->failed && lane->load->listener.loaded)
        lane->load->listener.loaded(lane->load->listener.context, block->end - block->begin);
}

static bool open_lane(struct lane *lane)
{
    struct load *load = lane->load;
    size_t size = (load->depth * load->block_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    lane->arena = aligned_alloc(HUGE_PAGE, size);
    lane->hash = hash_stream_new();
    if (!lane->arena || !lane->hash)
        return false;
    madvise(lane->arena, size, MADV_HUGEPAGE); /* only a hint */
    for (unsigned i = 0; i < load->depth; i++)
        lane->blocks[i].data = lane->arena + i * load->block_bytes;
    return load->io->open(load->depth, lane->arena, size, &lane->context, NULL) == 0;
}

void load_lane_run(struct load *load, const struct reader_file *files)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return;
    lane->load = load;
    lane->files = files;
    if (open_lane(lane)) {
        for (;;) {
            while (lane->count < load->depth && post_next(lane))
                ;
            if (lane->count == 0)
                break;
            await_head(lane);
            accept_block(lane, &lane->blocks[lane->head]);
            lane->head = (lane->head + 1) % load->depth;
            lane->count--;
        }
        load->io->close(lane->context);
    }
    hash_stream_free(lane->hash);
    free(lane->arena);
    free(lane);
}
