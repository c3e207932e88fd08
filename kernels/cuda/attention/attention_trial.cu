#include "kernels/cuda/attention/attention_trial.cuh"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The concurrent work: up to TRIAL_RUNS times as many blocks, which add in their own memory for
 * about as long as attention takes. */
#define BESIDE_BLOCKS  32
#define BESIDE_THREADS 128

/* Both kernels round weights and gradients of scores to bf16, but at different places. The
 * difference of two correct kernels is below 0.01 of the length of the result. */
#define DIFFERENCE_MAX 0.02

/* The arrays on the device, contiguous in one allocation, and their sizes in elements. */
struct buffers {
    char *memory;
    void *workspace; /* borrowed */
    bfloat *qkv, *output, *d_output, *d_qkv, *other;
    float *log_sum, *other_sum, *delta;
    float *beside;             /* of the concurrent work */
    size_t wide, narrow, rows; /* elements of qkv, output, log_sum */
};

static __global__ void __launch_bounds__(BESIDE_THREADS)
    beside_kernel(volatile float *values, unsigned rounds)
{
    size_t index = (size_t)blockIdx.x * BESIDE_THREADS + threadIdx.x;

    for (unsigned i = 0; i < rounds; i++)
        values[index] = values[index] + 1.0f;
}

/* Keep the device busy during run number @run; the first run is alone. */
static void begin_beside(struct kernel_device *device, float *values, unsigned run, unsigned rounds)
{
    if (run == 0)
        return;
    LAUNCH(beside_kernel, run * BESIDE_BLOCKS, BESIDE_THREADS, 0, device->queues[KERNEL_QUEUE_COPY],
           values, rounds);
    DEVICE_LAUNCHED(device, "a trial of cuDNN");
}

/* Return @view with the samples of one run of @graph. */
static attention_view part_of(const attention_view &view, unsigned samples)
{
    attention_view part = view;

    part.batch = samples;
    return part;
}

static void *take(char **memory, size_t size_bytes)
{
    char *taken = *memory;
    *memory += (size_bytes + 255) / 256 * 256;
    return taken;
}

/* Assign the addresses of the arrays; return their total size, also for NULL memory. */
static size_t lay_out(struct buffers *b)
{
    char *next = b->memory;

    b->qkv = (bfloat *)take(&next, b->wide * sizeof(bfloat));
    b->d_qkv = (bfloat *)take(&next, b->wide * sizeof(bfloat));
    b->other = (bfloat *)take(&next, b->wide * sizeof(bfloat));
    b->output = (bfloat *)take(&next, b->narrow * sizeof(bfloat));
    b->d_output = (bfloat *)take(&next, b->narrow * sizeof(bfloat));
    b->log_sum = (float *)take(&next, b->rows * sizeof(float));
    b->other_sum = (float *)take(&next, b->rows * sizeof(float));
    b->delta = (float *)take(&next, b->rows * sizeof(float));
    b->beside = (float *)take(&next, TRIAL_RUNS * BESIDE_BLOCKS * BESIDE_THREADS * sizeof(float));
    return (size_t)(next - b->memory);
}

/* Draw a number between -1 and 1 by a linear congruence: the same on every machine. */
static bfloat drawn(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return from_float<bfloat>((float)(*seed >> 8) / (float)(1 << 23) - 1.0f);
}

static int draw(struct kernel_device *device, bfloat *to, size_t count, uint32_t seed)
{
    bfloat *host = (bfloat *)malloc(count * sizeof(bfloat));

    if (host == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        host[i] = drawn(&seed);
    cuda_upload(device, to, host, count * sizeof(bfloat));
    free(host);
    return 0;
}

/* Return a copy on the host; NULL: no memory. */
static void *fetched(struct kernel_device *device, const void *from, size_t size_bytes)
{
    void *host = malloc(size_bytes);

    if (host == NULL)
        return NULL;
    cuda_download(device, host, from, size_bytes);
    device_note(device, cudaStreamSynchronize(device_stream(device)), "a trial of cuDNN");
    return host;
}

/* Return the distance of two results, relative to the length of the first. */
static double difference(const bfloat *a, const bfloat *b, size_t count)
{
    double apart = 0, length = 0;

    for (size_t i = 0; i < count; i++) {
        double x = (double)to_float(a[i]), y = (double)to_float(b[i]);
        apart += (x - y) * (x - y);
        length += x * x;
    }
    return sqrt(apart / length);
}

/* Compare the first run's result with the expected @want. */
static void judge(const bfloat *want, const bfloat *first, size_t count, char *ret_reason)
{
    double apart = difference(want, first, count);

    if (!(apart <= DIFFERENCE_MAX)) /* NaN too */
        snprintf(ret_reason, TRIAL_REASON_SIZE, "on trial cuDNN was %.3g off", apart);
}

/* Run the graph; return cuDNN's status. */
typedef int (*run_graph)(const struct attention_graph *graph, const struct buffers *b,
                         const attention_view &view);

static int run_forward(const struct attention_graph *graph, const struct buffers *b,
                       const attention_view &view)
{
    return attention_graph_run_forward(graph, b->other, b->other_sum, b->qkv, view, b->workspace);
}

static int run_backward(const struct attention_graph *graph, const struct buffers *b,
                        const attention_view &view)
{
    return attention_graph_run_backward(graph, b->other, b->d_output, b->output, b->delta,
                                        b->log_sum, b->qkv, view, b->workspace);
}

/* One comparison: a direction's result by our own kernels, and the graph that must reproduce it. */
struct contest {
    const struct attention_graph *graph;
    run_graph run;
    const bfloat *want;
    size_t count; /* elements of the result of one run */
    char *reason; /* "" until cuDNN fails */
};

/* Run the graph once; *@ret_result is then on the host; NULL: cuDNN failed. */
static int run_once(struct kernel_device *device, const struct contest *c, const struct buffers *b,
                    const attention_view &part, unsigned run, bfloat **ret_result)
{
    cuda_zero(device, b->other, c->count * sizeof(bfloat));
    device_note(device, cudaStreamSynchronize(device_stream(device)), "a trial of cuDNN");
    begin_beside(device, b->beside, run, part.context);
    int status = c->run(c->graph, b, part);
    *ret_result = NULL;
    if (status != 0) {
        snprintf(c->reason, TRIAL_REASON_SIZE, "on trial cuDNN failed: %s",
                 c->graph->graph.cudnn->text(status));
        return 0;
    }
    *ret_result = (bfloat *)fetched(device, b->other, c->count * sizeof(bfloat));
    return *ret_result == NULL ? -ENOMEM : 0;
}

/* Run the graph repeatedly; each run must give the bits of @first. */
static int repeat(struct kernel_device *device, const struct contest *c, const struct buffers *b,
                  const attention_view &part, const bfloat *first)
{
    int status = 0;

    for (unsigned run = 1; run < TRIAL_RUNS && status == 0 && c->reason[0] == '\0'; run++) {
        bfloat *again;
        status = run_once(device, c, b, part, run, &again);
        if (again != NULL && memcmp(first, again, c->count * sizeof(bfloat)) != 0)
            snprintf(c->reason, TRIAL_REASON_SIZE, "on trial cuDNN gave other bits in run %u of %u",
                     run + 1, TRIAL_RUNS);
        free(again);
    }
    return status;
}

static int compare(struct kernel_device *device, const struct contest *c, const struct buffers *b,
                   const attention_view &view)
{
    const attention_view part = part_of(view, c->graph->samples);
    bfloat *first, *wanted;
    int status = run_once(device, c, b, part, 0, &first);

    if (status != 0 || first == NULL)
        return status;
    wanted = (bfloat *)fetched(device, c->want, c->count * sizeof(bfloat));
    if (wanted == NULL)
        status = -ENOMEM;
    else
        judge(wanted, first, c->count, c->reason);
    free(wanted);
    if (status == 0)
        status = repeat(device, c, b, part, first);
    free(first);
    return status;
}

/* Compare the log-sums: backward of one implementation may use forward's log-sums of the other. */
static int compare_sums(struct kernel_device *device, const struct buffers *b, size_t rows,
                        char *ret_reason)
{
    float *want = (float *)fetched(device, b->log_sum, rows * sizeof(float));
    float *sums = (float *)fetched(device, b->other_sum, rows * sizeof(float));
    int status = want == NULL || sums == NULL ? -ENOMEM : 0;

    for (size_t i = 0; status == 0 && ret_reason[0] == '\0' && i < rows; i++)
        if (!(fabsf(want[i] - sums[i]) <= (float)DIFFERENCE_MAX))
            snprintf(ret_reason, TRIAL_REASON_SIZE, "on trial cuDNN's log-sums were %.3g off",
                     (double)fabsf(want[i] - sums[i]));
    free(want);
    free(sums);
    return status;
}

static int try_graphs(struct kernel_device *device, const struct attention_graph *forward,
                      const struct attention_graph *backward, const struct buffers *b,
                      const attention_view &view, struct attention_trial *trial)
{
    const size_t tokens = view.context;
    const struct contest ahead = {forward, run_forward, b->output,
                                  forward->samples * tokens * view.width, trial->forward};
    const struct contest back = {backward, run_backward, b->d_qkv,
                                 backward->samples * tokens * view.stride, trial->backward};
    int status = draw(device, b->qkv, b->wide, 1);

    if (status == 0)
        status = draw(device, b->d_output, b->narrow, 2);
    if (status < 0)
        return status;
    attention_own_forward(device, b->output, b->log_sum, b->qkv, view);
    attention_own_backward(device, b->d_qkv, b->d_output, b->output, b->log_sum, b->qkv, view);
    if (forward->samples > 0)
        status = compare(device, &ahead, b, view);
    if (status == 0 && forward->samples > 0)
        status = compare_sums(device, b, forward->samples * view.heads * tokens, trial->forward);
    if (status == 0 && backward->samples > 0)
        status = compare(device, &back, b, view);
    return status;
}

int attention_trial_run(struct kernel_device *device, const struct attention_graph *forward,
                        const struct attention_graph *backward, const attention_view &view,
                        void *workspace, struct attention_trial *ret_trial)
{
    const attention_view part =
        part_of(view, forward->samples > backward->samples ? forward->samples : backward->samples);
    struct buffers b = {};

    *ret_trial = {};
    b.wide = (size_t)part.batch * part.context * part.stride;
    b.narrow = (size_t)part.batch * part.context * part.width;
    b.rows = (size_t)part.batch * part.heads * part.context;
    if (cudaMalloc((void **)&b.memory, lay_out(&b)) != cudaSuccess) {
        (void)cudaGetLastError(); /* reported here, not sticky */
        return -ENOMEM;
    }
    (void)lay_out(&b);
    b.workspace = workspace;
    int status = try_graphs(device, forward, backward, &b, part, ret_trial);
    for (unsigned i = 0; i < KERNEL_QUEUES; i++)
        device_note(device, cudaStreamSynchronize(device->queues[i]), "a trial of cuDNN");
    device_note(device, cudaFree(b.memory), "a trial of cuDNN");
    return status;
}
