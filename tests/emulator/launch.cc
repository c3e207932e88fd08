/* Threads of a block as coroutines; see cuda_runtime.h. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <map>
#include <set>
#include <vector>

#include "cuda_runtime.h"
#include "device_memory.h"
#include "streams.h"

#define THREADS_MAX     1024
#define STACK_BYTES     ((size_t)128 << 10)
#define SHARED_MAX      ((size_t)99 << 10) /* of sm_120, the least of all compiled targets */
#define SHARED_UNASKED  ((size_t)48 << 10)
#define WARP            32
#define SHARED_POISON   0xcb /* the initial content of a block's shared memory */

enum thread_state { RUNNABLE, AT_BLOCK, AT_WARP, ENDED };

struct thread {
    ucontext_t context; /* where it begins */
    jmp_buf resume;     /* a jump needs no system call, unlike a context switch */
    bool begun;
    thread_state state;
    uint3 index;
    std::vector<unsigned char> stack;
};

struct warp_area { /* values exchanged by lanes between two barriers */
    uint64_t bits[WARP];
    const void *rows[WARP];
    uint32_t left[WARP][4], right[WARP][2];
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

static std::vector<thread> threads(THREADS_MAX);
static warp_area warps[THREADS_MAX / WARP];
static jmp_buf scheduler;
static unsigned current, launches;
static const std::function<void()> *current_body;
static int or_pending, or_result;
static unsigned char *shared_memory;

unsigned char *emulator_shared(void)
{
    return shared_memory;
}

static void yield(thread_state state)
{
    threads[current].state = state;
    if (_setjmp(threads[current].resume) == 0)
        _longjmp(scheduler, 1);
}

static void thread_main(void)
{
    (*current_body)();
    threads[current].state = ENDED;
    _longjmp(scheduler, 1);
}

static void resume(thread &t)
{
    threadIdx = t.index;
    if (_setjmp(scheduler) != 0)
        return;
    if (t.begun)
        _longjmp(t.resume, 1);
    t.begun = true;
    setcontext(&t.context);
}

static void prepare(unsigned index)
{
    thread &t = threads[index];
    if (t.stack.empty())
        t.stack.resize(STACK_BYTES);
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack.data();
    t.context.uc_stack.ss_size = t.stack.size();
    t.context.uc_link = nullptr;
    t.state = RUNNABLE;
    t.begun = false;
    t.index = {index % blockDim.x, index / blockDim.x % blockDim.y,
               index / blockDim.x / blockDim.y};
    makecontext(&t.context, thread_main, 0);
}

/* Whether all threads of [begin, end) that have not ended wait at @state. */
static bool all_wait(unsigned begin, unsigned end, thread_state state)
{
    bool any = false;
    for (unsigned i = begin; i < end; i++) {
        if (threads[i].state != ENDED && threads[i].state != state)
            return false;
        any = any || threads[i].state == state;
    }
    return any;
}

static void release(unsigned begin, unsigned end)
{
    for (unsigned i = begin; i < end; i++)
        if (threads[i].state != ENDED)
            threads[i].state = RUNNABLE;
}

/* Another order at each launch: forwards, backwards, from the middle. */
static unsigned in_order(unsigned i, unsigned count)
{
    unsigned order = launches % 3;
    return order == 0 ? i : order == 1 ? count - 1 - i : (i + count / 2) % count;
}

static bool run_lanes(unsigned begin, unsigned count)
{
    bool ran = false;
    for (unsigned i = 0; i < count; i++) {
        current = begin + in_order(i, count);
        if (threads[current].state != RUNNABLE)
            continue;
        resume(threads[current]);
        ran = true;
    }
    return ran;
}

/* A warp runs as far as it can before another warp runs: between two barriers of a block the warps
 * are as far apart as they can get. */
static bool run_warp(unsigned begin, unsigned count)
{
    bool ran = false;
    while (run_lanes(begin, count)) {
        ran = true;
        if (all_wait(begin, begin + count, AT_WARP))
            release(begin, begin + count);
    }
    return ran;
}

static bool run_runnable(unsigned count)
{
    unsigned warp_count = (count + WARP - 1) / WARP;
    bool ran = false;
    for (unsigned i = 0; i < warp_count; i++) {
        unsigned begin = in_order(i, warp_count) * WARP;
        ran |= run_warp(begin, begin + WARP < count ? WARP : count - begin);
    }
    return ran;
}

static bool open_barrier(unsigned count)
{
    if (!all_wait(0, count, AT_BLOCK))
        return false;
    or_result = or_pending;
    or_pending = 0;
    release(0, count);
    return true;
}

static void run_block(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        prepare(i);
    or_pending = 0;
    for (;;) {
        bool ran = run_runnable(count), opened = open_barrier(count);
        if (ran || opened)
            continue;
        for (unsigned i = 0; i < count; i++)
            if (threads[i].state != ENDED) {
                fprintf(stderr, "emulator: thread %u of a block waits at a barrier that others "
                                "do not reach\n", i);
                abort();
            }
        return;
    }
}

static void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body)
{
    unsigned count = block.x * block.y * block.z;

    /* Of its exact size, so that the address sanitizer sees its end. */
    shared_memory = (unsigned char *)aligned_alloc(128, (shared_bytes + 127) / 128 * 128 + 128);
    device_access access;
    gridDim = grid;
    blockDim = block;
    current_body = &body;
    launches++;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                memset(shared_memory, SHARED_POISON, shared_bytes);
                blockIdx = {x, y, z};
                run_block(count);
            }
    free(shared_memory);
    shared_memory = nullptr;
}

static std::map<const void *, size_t> shared_allowed; /* by kernels that asked for more */

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    assert(attribute == cudaFuncAttributeMaxDynamicSharedMemorySize);
    if (value < 0 || (size_t)value > SHARED_MAX)
        return cudaErrorInvalidValue;
    shared_allowed[kernel] = (size_t)value;
    return cudaSuccess;
}

static size_t shared_limit(const void *kernel)
{
    auto asked = shared_allowed.find(kernel);
    return asked == shared_allowed.end() ? SHARED_UNASKED : asked->second;
}

static std::set<const void *> launched;

unsigned emulator_kernels(void)
{
    return (unsigned)launched.size();
}

void emulator_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                     cudaStream_t stream, const std::function<void()> &body)
{
    unsigned count = block.x * block.y * block.z;
    launched.insert(kernel);
    assert(stream != nullptr);
    assert(count >= 1 && count <= THREADS_MAX && shared_bytes <= shared_limit(kernel));
    assert(grid.x <= 0x7fffffffu && block.z <= 64);
    assert(grid.x >= 1 && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535);

    stream_takes(stream, [=] { run_grid(grid, block, shared_bytes, body); });
}

/* ---- between threads ---- */

static warp_area &my_warp(void)
{
    return warps[current / WARP];
}

void __syncthreads(void)
{
    yield(AT_BLOCK);
}

int __syncthreads_or(int predicate)
{
    or_pending |= predicate != 0;
    yield(AT_BLOCK);
    return or_result;
}

uint64_t emulator_exchange(uint64_t bits, unsigned source_lane)
{
    warp_area &warp = my_warp();
    assert(source_lane < WARP);
    warp.bits[current % WARP] = bits;
    yield(AT_WARP);
    bits = warp.bits[source_lane];
    yield(AT_WARP);
    return bits;
}

unsigned __ballot_sync(unsigned mask, bool predicate)
{
    warp_area &warp = my_warp();
    unsigned votes = 0;
    assert(mask == 0xffffffffu);
    warp.bits[current % WARP] = predicate;
    yield(AT_WARP);
    for (unsigned lane = 0; lane < WARP; lane++)
        votes |= (unsigned)warp.bits[lane] << lane;
    yield(AT_WARP);
    return votes;
}

static uint32_t join(uint16_t low, uint16_t high)
{
    return (uint32_t)low | (uint32_t)high << 16;
}

/* Four 8 x 8 matrices; lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j. */
static void load_matrices(uint32_t (&words)[4], const void *row, bool transposed)
{
    warp_area &warp = my_warp();
    unsigned lane = current % WARP;

    assert((uintptr_t)row % 16 == 0);
    assert((const unsigned char *)row >= shared_memory); /* ldmatrix reads shared memory alone */
    warp.rows[lane] = row;
    yield(AT_WARP);
    for (unsigned j = 0; j < 4; j++) {
        unsigned pair = lane % 4 * 2;
        if (transposed)
            words[j] = join(((const uint16_t *)warp.rows[j * 8 + pair])[lane / 4],
                            ((const uint16_t *)warp.rows[j * 8 + pair + 1])[lane / 4]);
        else
            words[j] = join(((const uint16_t *)warp.rows[j * 8 + lane / 4])[pair],
                            ((const uint16_t *)warp.rows[j * 8 + lane / 4])[pair + 1]);
    }
    yield(AT_WARP);
}

void ldmatrix(uint32_t (&words)[4], const void *row)
{
    load_matrices(words, row, false);
}

void ldmatrix_transposed(uint32_t (&words)[4], const void *row)
{
    load_matrices(words, row, true);
}

static float half_of(uint32_t word, unsigned high)
{
    uint32_t bits = (high ? word >> 16 : word & 0xffff) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* PTX ISA, "Matrix fragments for mma.m16n8k16 with .bf16": group = lane / 4, member = lane % 4.
   A: word i holds row group + 8 (i % 2), columns 2 member + 8 (i / 2) and the next.
   B: word i holds column group, rows 2 member + 8 i and the next. */
static float left_at(const warp_area &warp, unsigned row, unsigned k)
{
    unsigned lane = row % 8 * 4 + k % 8 / 2, word = row / 8 + k / 8 * 2;
    return half_of(warp.left[lane][word], k % 2);
}

static float right_at(const warp_area &warp, unsigned k, unsigned column)
{
    unsigned lane = column * 4 + k % 8 / 2;
    return half_of(warp.right[lane][k / 8], k % 2);
}

void mma_words(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0, uint32_t right1)
{
    warp_area &warp = my_warp();
    unsigned lane = current % WARP;

    memcpy(warp.left[lane], left, sizeof(left));
    warp.right[lane][0] = right0;
    warp.right[lane][1] = right1;
    yield(AT_WARP);
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; k++)
            sum[i] += left_at(warp, row, k) * right_at(warp, k, column);
    }
    yield(AT_WARP);
}
