#include "kernels/cuda/attention/attention_choice.cuh"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/attention/attention_cudnn.cuh"
#include "kernels/cuda/attention/attention_trial.cuh"

#define SHAPES_MAX  16
#define REASON_SIZE 200
#define DEPTH_STEP  8 /* columns of a head: 16 bytes */

struct direction {
    struct attention_graph graph; /* no samples: use our own kernels */
    char reason[REASON_SIZE];     /* why our own kernels; "": cuDNN */
};

struct choice {
    attention_view view;
    struct direction forward, backward;
    void *workspace; /* for the larger graph; NULL: none */
    size_t workspace_bytes;
    bool borrows; /* the workspace is another shape's: one attention runs at a time */
};

struct attention_choices {
    struct cudnn cudnn;
    char reason[REASON_SIZE]; /* why cuDNN is missing, else "" */
    unsigned count;
    struct choice choices[SHAPES_MAX];
};

/* ---- the library ---- */

/* Return the path of cuDNN; NULL: switched off. The real library cannot use the emulator's memory.
 */
static const char *library_path(void)
{
#ifdef __CUDACC__
    const char *named = getenv("FIRN_CUDNN_LIBRARY"), *path = named ? named : "libcudnn.so.9";
#else
    const char *path = getenv("FIRN_CUDNN_LIBRARY");
#endif
    return path != NULL && path[0] != '\0' ? path : NULL;
}

size_t attention_choices_version(void)
{
    const char *path = library_path();
    struct cudnn cudnn = {};

    return path != NULL && cudnn_open(path, &cudnn, NULL) == 0 ? cudnn.version : 0;
}

/* Find cuDNN. Without the library our own kernels compute. A library that is present but fails is
 * an error: without it, this GPU would give other bits than other GPUs of the same kind. */
static int find_cudnn(struct attention_choices *choices, cudaStream_t stream, struct error *error)
{
    const char *path = library_path();
    struct error why = {};
    int status = path == NULL ? error_set(&why, -ENOENT, "cuDNN is switched off")
                              : cudnn_open(path, &choices->cudnn, &why);

    if (status == 0)
        return cudnn_attach(&choices->cudnn, stream, error);
    snprintf(choices->reason, sizeof(choices->reason), "%.*s", REASON_SIZE - 1, why.text);
    return 0;
}

int attention_choices_new(struct kernel_device *device, struct attention_choices **ret_choices,
                          struct error *error)
{
    struct attention_choices *choices = (struct attention_choices *)calloc(1, sizeof(*choices));
    int status = 0;

    if (choices == NULL)
        return error_set(error, -ENOMEM, "no memory for a GPU device");
    if (device->precision != CUDA_BF16)
        snprintf(choices->reason, sizeof(choices->reason), "cuDNN is for bf16 alone");
    else
        status = find_cudnn(choices, device_stream(device), error);
    if (status < 0)
        free(choices);
    else
        *ret_choices = choices;
    return status;
}

static void drop(struct choice *choice)
{
    attention_graph_drop(&choice->forward.graph);
    attention_graph_drop(&choice->backward.graph);
    if (!choice->borrows)
        (void)cudaFree(choice->workspace);
}

void attention_choices_free(struct attention_choices *choices)
{
    if (choices == NULL)
        return;
    for (unsigned i = 0; i < choices->count; i++)
        drop(&choices->choices[i]);
    cudnn_detach(&choices->cudnn);
    free(choices);
}

/* ---- choosing ---- */

static bool same_shape(const attention_view &a, const attention_view &b)
{
    return a.batch == b.batch && a.context == b.context && a.heads == b.heads &&
           a.kv_heads == b.kv_heads && a.depth == b.depth;
}

static struct choice *find(struct attention_choices *choices, const attention_view &view)
{
    for (unsigned i = 0; i < choices->count; i++)
        if (same_shape(choices->choices[i].view, view))
            return &choices->choices[i];
    return NULL;
}

static void stay(struct direction *direction, const char *reason)
{
    if (direction->graph.samples > 0)
        attention_graph_drop(&direction->graph);
    snprintf(direction->reason, sizeof(direction->reason), "%.*s", REASON_SIZE - 1, reason);
}

typedef int (*plan_graph)(const struct cudnn *cudnn, const attention_view &view,
                          size_t workspace_max, struct attention_graph *ret_graph,
                          struct error *error);

/* Return: 0, also if cuDNN does not compute the direction; -ENOMEM, -EIO: this process failed */
static int plan(const struct cudnn *cudnn, const attention_view &view, plan_graph make,
                struct direction *direction, struct error *error)
{
    struct error why = {};
    int status = make(cudnn, view, kernel_attention_workspace(view.heads, view.context),
                      &direction->graph, &why);

    if (status == -ENOTSUP || status == -ENOSPC)
        stay(direction, why.text);
    else if (status != 0)
        *error = why;
    return status == -ENOTSUP || status == -ENOSPC ? 0 : status;
}

/* Test the planned graphs against our own kernels. Return: 0 or -ENOMEM. */
static int test(struct kernel_device *device, struct choice *choice)
{
    struct attention_trial trial = {};
    int status = attention_trial_run(device, &choice->forward.graph, &choice->backward.graph,
                                     choice->view, choice->workspace, &trial);

    if (status < 0)
        return status;
    if (trial.forward[0] != '\0')
        stay(&choice->forward, trial.forward);
    if (trial.backward[0] != '\0')
        stay(&choice->backward, trial.backward);
    return 0;
}

/* Take the workspace until the device closes: recorded steps have its address. A single sample, of
 * frozen layers, uses the workspace of its micro-batch. */
static int take_workspace(const struct attention_choices *choices, struct choice *choice)
{
    size_t forward = choice->forward.graph.graph.workspace_bytes;
    size_t backward = choice->backward.graph.graph.workspace_bytes;
    size_t wanted = forward > backward ? forward : backward;

    for (unsigned i = 0; i < choices->count && wanted > 0; i++)
        if (choices->choices[i].workspace_bytes >= wanted) {
            choice->workspace = choices->choices[i].workspace;
            choice->borrows = true;
            return 0;
        }
    choice->workspace_bytes = wanted;
    if (wanted == 0 || cudaMalloc(&choice->workspace, wanted) == cudaSuccess)
        return 0;
    choice->workspace_bytes = 0;
    (void)cudaGetLastError(); /* reported here, not sticky */
    return -ENOMEM;
}

static int choose(struct kernel_device *device, struct choice *choice, struct error *error)
{
    const struct cudnn *cudnn = &device->attention->cudnn;
    int status = plan(cudnn, choice->view, attention_graph_forward, &choice->forward, error);

    if (status == 0)
        status = plan(cudnn, choice->view, attention_graph_backward, &choice->backward, error);
    if (status == 0)
        status = take_workspace(device->attention, choice);
    if (status == 0 && choice->forward.graph.samples + choice->backward.graph.samples > 0)
        status = test(device, choice);
    return status;
}

int attention_choose(struct kernel_device *device, const attention_view &view)
{
    struct attention_choices *choices = device->attention;
    struct choice choice = {};
    struct error error = {};
    int status = 0;

    if (find(choices, view) != NULL)
        return 0;
    if (choices->count == SHAPES_MAX) {
        device_fail(device, "attention", "a worker has 16 shapes of attention at most");
        return -ENOSPC;
    }
    choice.view = view;
    if (choices->reason[0] != '\0' || view.depth % DEPTH_STEP != 0) {
        const char *why = choices->reason[0] != '\0' ? choices->reason : "heads of odd width";
        stay(&choice.forward, why);
        stay(&choice.backward, why);
    } else {
        status = choose(device, &choice, &error);
    }
    if (status < 0)
        drop(&choice);
    else
        choices->choices[choices->count++] = choice;
    if (status == -EIO)
        device_fail(device, "choosing what computes attention", error.text);
    return status;
}

/* ---- computing ---- */

static void check(struct kernel_device *device, int status, const char *call)
{
    if (status != 0)
        device_fail(device, call, device->attention->cudnn.text(status));
}

bool attention_chosen_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                              const bfloat *qkv, const attention_view &view)
{
    const struct choice *choice = find(device->attention, view);

    if (choice == NULL || choice->forward.graph.samples == 0)
        return false;
    check(device,
          attention_graph_run_forward(&choice->forward.graph, output, log_sum, qkv, view,
                                      choice->workspace),
          "cuDNN's attention, forward");
    return true;
}

bool attention_chosen_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                               const bfloat *output, float *delta, const float *log_sum,
                               const bfloat *qkv, const attention_view &view)
{
    const struct choice *choice = find(device->attention, view);

    if (choice == NULL || choice->backward.graph.samples == 0)
        return false;
    check(device,
          attention_graph_run_backward(&choice->backward.graph, d_qkv, d_output, output, delta,
                                       log_sum, qkv, view, choice->workspace),
          "cuDNN's attention, backward");
    return true;
}

static size_t describe(const struct direction *direction, const char *separator, const char *name,
                       size_t version, char *ret_text, size_t size)
{
    int length =
        direction->graph.samples > 0
            ? snprintf(ret_text, size, "%s %s cuDNN %zu engine %lld, %u samples a run, %zu MiB",
                       separator, name, version, (long long)direction->graph.graph.engine,
                       direction->graph.samples, direction->graph.graph.workspace_bytes >> 20)
            : snprintf(ret_text, size, "%s %s own kernels (%s)", separator, name,
                       direction->reason);
    return length > 0 ? (size_t)length : 0;
}

void attention_describe(const struct kernel_device *device, char *ret_text, size_t size)
{
    const struct attention_choices *choices = device->attention;
    char line[3 * REASON_SIZE];

    ret_text[0] = '\0';
    for (unsigned i = 0, used = 0; i < choices->count && used < size; i++) {
        const struct choice *c = &choices->choices[i];
        const attention_view &v = c->view;
        size_t length = (size_t)snprintf(line, sizeof(line),
                                         "attention %ux%u, %u heads of %u, %u of keys:", v.batch,
                                         v.context, v.heads, v.depth, v.kv_heads);
        length += describe(&c->forward, "", "forward", choices->cudnn.version, line + length,
                           sizeof(line) - length);
        if (length < sizeof(line))
            (void)describe(&c->backward, ",", "backward", choices->cudnn.version, line + length,
                           sizeof(line) - length);
        int written = snprintf(ret_text + used, size - used, "%s\n", line);
        used += written > 0 ? (unsigned)written : 0;
    }
}
