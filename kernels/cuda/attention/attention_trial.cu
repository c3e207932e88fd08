#include "kernels/cuda/attention/attention_trial.cuh"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/attention_choice.cuh"
#include "kernels/cuda/attention/attention_cudnn.cuh"

#define SAMPLES 2
/* Both kernels round weights and gradients of scores to bf16, but at different places. The
 * difference of two correct kernels is below 0.01 of the length of the result. */
#define DIFFERENCE_MAX 0.02

/* The arrays on the device, one behind the other in one allocation, and their sizes in elements. */
struct buffers {
    char *memory;
    void *workspace;
    bfloat *qkv, *output, *d_output, *d_qkv, *other;
    float *log_sum, *other_sum, *delta;
    size_t wide, narrow, rows; /* elements of qkv, output, log_sum */
};

static attention_view trial_view(const attention_view &view)
{
    attention_view trial = view;

    trial.batch = SAMPLES;
    trial.context = view.context < TRIAL_CONTEXT ? view.context : TRIAL_CONTEXT;
    return trial;
}

static void *take(char **memory, size_t size_bytes)
{
    char *taken = *memory;
    *memory += (size_bytes + 255) / 256 * 256;
    return taken;
}

/* Assign the addresses of the arrays; return their total size, also for NULL memory. */
static size_t lay_out(struct buffers *b, size_t workspace_bytes)
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
    b->workspace = take(&next, workspace_bytes);
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

/* Compare @first and @second, two runs, with the expected @want. */
static int judge(const bfloat *want, const bfloat *first, const bfloat *second, size_t count,
                 char *ret_reason)
{
    if (want == NULL || first == NULL || second == NULL)
        return -ENOMEM;
    double apart = difference(want, first, count);
    if (memcmp(first, second, count * sizeof(bfloat)) != 0)
        snprintf(ret_reason, TRIAL_REASON_SIZE, "on trial cuDNN gave other bits the second time");
    else if (!(apart <= DIFFERENCE_MAX)) /* NaN too */
        snprintf(ret_reason, TRIAL_REASON_SIZE, "on trial cuDNN was %.3g off", apart);
    return 0;
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

static int compare(struct kernel_device *device, const struct attention_graph *graph, run_graph run,
                   const bfloat *want, size_t count, const struct buffers *b,
                   const attention_view &view, char *ret_reason)
{
    size_t size_bytes = count * sizeof(bfloat);
    void *runs[2] = {};
    int status = 0;

    for (unsigned i = 0; i < 2 && status == 0; i++) {
        cuda_zero(device, b->other, size_bytes);
        status = run(graph, b, view);
        runs[i] = fetched(device, b->other, size_bytes);
    }
    void *wanted = fetched(device, want, size_bytes);
    int result = 0;
    if (status != 0)
        snprintf(ret_reason, TRIAL_REASON_SIZE, "on trial cuDNN failed: %s",
                 graph->graph.cudnn->text(status));
    else
        result = judge((bfloat *)wanted, (bfloat *)runs[0], (bfloat *)runs[1], count, ret_reason);
    free(runs[0]);
    free(runs[1]);
    free(wanted);
    return result;
}

/* Compare the log-sums: backward of one implementation takes forward's log-sum of the other. */
static int compare_sums(struct kernel_device *device, const struct buffers *b, char *ret_reason)
{
    float *want = (float *)fetched(device, b->log_sum, b->rows * sizeof(float));
    float *sums = (float *)fetched(device, b->other_sum, b->rows * sizeof(float));
    int status = want == NULL || sums == NULL ? -ENOMEM : 0;

    for (size_t i = 0; status == 0 && ret_reason[0] == '\0' && i < b->rows; i++)
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
    int status = draw(device, b->qkv, b->wide, 1);

    if (status == 0)
        status = draw(device, b->d_output, b->narrow, 2);
    if (status < 0)
        return status;
    attention_own_forward(device, b->output, b->log_sum, b->qkv, view);
    attention_own_backward(device, b->d_qkv, b->d_output, b->output, b->log_sum, b->qkv, view);
    if (forward->samples > 0)
        status =
            compare(device, forward, run_forward, b->output, b->narrow, b, view, trial->forward);
    if (status == 0 && forward->samples > 0)
        status = compare_sums(device, b, trial->forward);
    if (status == 0 && backward->samples > 0)
        status =
            compare(device, backward, run_backward, b->d_qkv, b->wide, b, view, trial->backward);
    return status;
}

static int run_in_memory(struct kernel_device *device, const struct attention_graph *forward,
                         const struct attention_graph *backward, const attention_view &view,
                         struct attention_trial *trial)
{
    struct buffers b = {};
    size_t workspace_bytes = forward->graph.workspace_bytes > backward->graph.workspace_bytes
                                 ? forward->graph.workspace_bytes
                                 : backward->graph.workspace_bytes;

    b.wide = (size_t)view.batch * view.context * view.stride;
    b.narrow = (size_t)view.batch * view.context * view.width;
    b.rows = (size_t)view.batch * view.heads * view.context;
    if (cudaMalloc((void **)&b.memory, lay_out(&b, workspace_bytes)) != cudaSuccess) {
        (void)cudaGetLastError(); /* reported here, not sticky */
        return -ENOMEM;
    }
    (void)lay_out(&b, workspace_bytes);
    int status = try_graphs(device, forward, backward, &b, view, trial);
    device_note(device, cudaStreamSynchronize(device_stream(device)), "a trial of cuDNN");
    device_note(device, cudaFree(b.memory), "a trial of cuDNN");
    return status;
}

int attention_trial_run(struct kernel_device *device, const struct cudnn *cudnn,
                        const attention_view &view, struct attention_trial *ret_trial)
{
    attention_view trial = trial_view(view);
    struct attention_graph forward = {}, backward = {};
    struct error error = {};

    *ret_trial = {};
    if (attention_graph_forward(cudnn, trial, CHOICE_WORKSPACE_MAX, &forward, &error) < 0)
        snprintf(ret_trial->forward, TRIAL_REASON_SIZE, "no trial: %.120s", error.text);
    if (attention_graph_backward(cudnn, trial, CHOICE_WORKSPACE_MAX, &backward, &error) < 0)
        snprintf(ret_trial->backward, TRIAL_REASON_SIZE, "no trial: %.120s", error.text);
    int status = run_in_memory(device, &forward, &backward, trial, ret_trial);
    attention_graph_drop(&forward);
    attention_graph_drop(&backward);
    return status;
}
