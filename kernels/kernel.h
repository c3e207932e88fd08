/*
 * The tensor operations of a transformer, in one table of functions per backend.
 *
 * Memory: every tensor pointer is device memory of the table's backend (host memory for "cpu") and
 * a multiple of 16 bytes. Tensors are row-major, and contiguous except for rows with a stride.
 * Parameters, gradients, optimizer state and statistics are f32. Activations have
 * kernel->activation_size bytes per element (f32 on cpu, bf16 or f32 on cuda), hence `void *`. A
 * `weight` has the same type as the activations.
 *
 * Exactness (the contract that elasticity rests on): the result of a call depends only on its
 * arguments and on the device's thread count; never on addresses, on other memory of the process or
 * on timing. No operation may use an unordered reduction. "Accumulates" means that the call adds to
 * the present values, in one fixed order.
 *
 * Errors: operations are asynchronous on some backends and return nothing. A failure is sticky on
 * the device, and synchronize() returns it. One thread makes all calls of one device.
 *
 * Letters: B batch, T context, N = B*T rows, C width, H heads, K heads of keys and values, D
 * columns of a head, V vocabulary, I and O the input and output width of a linear layer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernel_device;    /* opaque; one slot: a GPU, or a CPU slot of n threads */
struct kernel_event;     /* opaque; a point in a queue */
struct kernel_recording; /* opaque; calls of the compute queue that can be repeated as one */

#define KERNEL_ROUTES_MAX 5  /* queues of routes between GPUs */
#define KERNEL_UUID_SIZE  16 /* bytes that identify a device among all devices */

/*
 * A device has a few queues. Calls of one queue run in the order in which they were made. Queues
 * run concurrently unless an event orders them. Every operation runs on the compute queue; the
 * other queues run transfer(), or the work of another library on their streams. On cpu a call has
 * finished when it returns.
 */
enum kernel_queue {
    KERNEL_QUEUE_COMPUTE,
    KERNEL_QUEUE_COMMUNICATION, /* between a stage and its links */
    KERNEL_QUEUE_COPY,          /* snapshots */
    KERNEL_QUEUE_ROUTES, /* the first of the routes between GPUs: a route may block until its peer
                            is ready */
    KERNEL_QUEUES = KERNEL_QUEUE_ROUTES + KERNEL_ROUTES_MAX
};

struct kernel_options {
    unsigned index;        /* number of the GPU; ignored on cpu */
    unsigned thread_count; /* cpu: threads of the slot, part of the job's identity; >= 1 */
};

/* How a linear layer's weight lies in memory. */
enum kernel_weight {
    KERNEL_WEIGHT_IN_OUT, /* (I, O): GPT-2's Conv1D, as Hugging Face stores it */
    KERNEL_WEIGHT_OUT_IN, /* (O, I): torch.nn.Linear and the tied head (V, C) */
};

struct kernel_linear {
    size_t rows, in, out; /* N, I, O */
    enum kernel_weight layout;
    /* Elements from one row of the output, or of its gradient, to the next, so that rows are
     * aligned even if O is odd. Elements between two rows are neither read nor written. 0: O.
     */
    size_t out_stride;
};

static inline size_t kernel_linear_stride(const struct kernel_linear *shape)
{
    return shape->out_stride == 0 ? shape->out : shape->out_stride;
}

struct kernel_attention {
    size_t batch, context, width, heads; /* B, T, C, H; C divisible by H: D = C / H */
    size_t kv_heads; /* K, divides H: query head h uses key and value head h / (H / K) */
};

/*
 * The workspace that a library's attention may take on a device: two bytes per score of one sample,
 * as cuDNN's deterministic backward needs on Hopper. A larger micro-batch is computed in parts. The
 * memory that firnd leaves to the libraries includes the first KERNEL_ATTENTION_FREE_BYTES; the
 * planner counts the rest (elastic/planner/planner_units.c).
 */
#define KERNEL_ATTENTION_FREE_BYTES ((size_t)256 << 20)
#define KERNEL_ATTENTION_MOST_BYTES ((size_t)4 << 30)

static inline size_t kernel_attention_workspace(size_t heads, size_t context)
{
    size_t bytes;

    if (__builtin_mul_overflow(2 * heads * context, context, &bytes) ||
        bytes > KERNEL_ATTENTION_MOST_BYTES)
        return KERNEL_ATTENTION_MOST_BYTES;
    return bytes < KERNEL_ATTENTION_FREE_BYTES ? KERNEL_ATTENTION_FREE_BYTES : bytes;
}

/* One AdamW step (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019). */
struct kernel_adamw {
    float lr, beta1, beta2, epsilon, weight_decay;
    float gradient_scale; /* 1, or clip / norm when the global norm exceeds the clip */
    uint64_t step;        /* from 1: bias correction */
    /* Round bf16 weights to nearest, or up with the probability of the part cut off, by Philox of
     * the seed, the step, the tensor's stream and the element. */
    bool stochastic_rounding;
    uint64_t rounding_seed;
};

/* One tensor of an AdamW step, each pointer on the device. */
struct kernel_adamw_tensor {
    float *parameter, *first_moment, *second_moment;
    const float *gradient;
    void *weight;    /* the parameter in the type of the activations; ignored if that is f32 */
    size_t count;    /* elements */
    uint64_t stream; /* below 2^20: number of the tensor in the model, for stochastic rounding */
    bool decay;      /* weight decay applies */
};

/* One flat tensor of norms_squared() or digests(). */
struct kernel_flat_tensor {
    const float *values; /* on the device */
    size_t count;        /* elements */
};

/* Elements of a partial sum of norms_squared(): aligned to the tensor's start. */
#define KERNEL_NORM_CHUNK 4096

struct kernel {
    const char *name;       /* "cpu", "cuda" */
    size_t activation_size; /* bytes of one activation element */
    /* Device memory is host memory: links and files can use it directly. */
    bool host_memory;

    int (*open)(const struct kernel_options *options, struct kernel_device **ret_device,
                struct error *error) CHECK_RESULT;
    void (*close)(struct kernel_device *device); /* NULL allowed */

    /* 64-byte aligned, zeroed. -ENOMEM. release(NULL) is allowed. */
    int (*allocate)(struct kernel_device *device, size_t size_bytes,
                    void **ret_memory) CHECK_RESULT;
    void (*release)(struct kernel_device *device, void *memory);
    /* Host memory that the device reaches directly (pinned), zeroed. -ENOMEM. */
    int (*host_allocate)(struct kernel_device *device, size_t size_bytes,
                         void **ret_memory) CHECK_RESULT;
    void (*host_release)(struct kernel_device *device, void *memory);
    /* Return the free and the total memory of the device. On cpu, whose memory all processes share,
     * both numbers stay unchanged. Other processes may take the free memory meanwhile. */
    void (*memory)(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes);
    /* @from_host is borrowed until the call returns */
    void (*upload)(struct kernel_device *device, void *to_device, const void *from_host,
                   size_t size_bytes);
    /* @to_host is valid after synchronize(), or after a later event on the compute queue has
     * passed; a failed call leaves it unchanged */
    void (*download)(struct kernel_device *device, void *to_host, const void *from_device,
                     size_t size_bytes);
    void (*copy)(struct kernel_device *device, void *to, const void *from, size_t size_bytes);
    void (*zero)(struct kernel_device *device, void *memory, size_t size_bytes);
    /* Wait for all earlier calls of all queues. Return: 0, or the device's sticky failure. */
    int (*synchronize)(struct kernel_device *device, struct error *error) CHECK_RESULT;

    /* An event is passed until it is first recorded. -ENOMEM. event_free(NULL) is allowed. */
    int (*event_new)(struct kernel_device *device, struct kernel_event **ret_event) CHECK_RESULT;
    void (*event_free)(struct kernel_device *device, struct kernel_event *event);
    /* the event is after all earlier calls of @queue; recording again moves it */
    void (*event_record)(struct kernel_device *device, struct kernel_event *event,
                         enum kernel_queue queue);
    /* later calls of @queue run after the event */
    void (*queue_wait)(struct kernel_device *device, enum kernel_queue queue,
                       struct kernel_event *event);
    bool (*event_passed)(struct kernel_device *device, struct kernel_event *event);
    void (*event_wait)(struct kernel_device *device, struct kernel_event *event);
    /* copy @from to @to as a call of @queue; either side is device memory or memory of
     * host_allocate(). Both are borrowed until a later event has passed */
    void (*transfer)(struct kernel_device *device, enum kernel_queue queue, void *to,
                     const void *from, size_t size_bytes);
    /* Return the cudaStream_t of a queue, for other libraries; NULL: none (cpu). */
    void *(*stream)(struct kernel_device *device, enum kernel_queue queue);
    /* Return the unique name of the device; false: it has none (cpu, an emulated device). */
    bool (*uuid)(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE]);
    /*
     * Recording (a CUDA graph): the calls on the compute queue between begin and end are not
     * executed but kept; replay() executes all of them, with the same arguments, as one call.
     * Operations, copy() and zero() may be recorded, except those that synchronize or take host
     * memory. No other call of the device may come between. Begin and end fail if the backend
     * cannot record (-ENOTSUP: recording is switched off; @error is not set). Then nothing has been
     * executed and the device is unchanged. A recording is valid as long as all memory that it
     * uses. All four are NULL if a replay would cost as much as the calls (cpu).
     */
    int (*record_begin)(struct kernel_device *device, struct error *error) CHECK_RESULT;
    int (*record_end)(struct kernel_device *device, struct kernel_recording **ret_recording,
                      struct error *error) CHECK_RESULT;
    void (*replay)(struct kernel_device *device, const struct kernel_recording *recording);
    void (*recording_free)(struct kernel_device *device, struct kernel_recording *recording);
    /* Write one line for each dependency of the results: device, libraries, chosen algorithms */
    void (*describe)(struct kernel_device *device, char *ret_text, size_t size);

    /* output (B,T,C) = token_table (V,C) [tokens (B,T) i32] + position_table (T,C); position_table
     * NULL: only the tokens' rows */
    void (*embedding_forward)(struct kernel_device *device, void *output, const int32_t *tokens,
                              const void *token_table, const void *position_table, size_t batch,
                              size_t context, size_t width);
    /* accumulates d_token_table (V,C), d_position_table (T,C; NULL: none) from d_output (B,T,C),
     * rows in index order */
    void (*embedding_backward)(struct kernel_device *device, float *d_token_table,
                               float *d_position_table, const void *d_output, const int32_t *tokens,
                               size_t batch, size_t context, size_t width);

    /*
     * Layer norm: output (N,C), mean (N), rstd (N) from input (N,C), weight (C), bias (C); epsilon
     * 1e-5. With @branch (N,C) it adds to the residual stream first: sum (N,C) = input + branch, as
     * residual() computes it, is normalized instead of input. @branch NULL: sum is ignored.
     */
    void (*layernorm_forward)(struct kernel_device *device, void *output, float *mean, float *rstd,
                              void *sum, const void *input, const void *branch, const void *weight,
                              const void *bias, size_t rows, size_t width);
    /* @input: the values that forward normalized; ADDS to d_input (N,C) (the residual path's
     * gradient is already there); accumulates d_weight, d_bias (C) */
    void (*layernorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                               float *d_bias, const void *d_output, const void *input,
                               const void *weight, const float *mean, const float *rstd,
                               size_t rows, size_t width);

    /*
     * RMS norm (Zhang and Sennrich, 2019): output (N,C), rstd (N) from input (N,C), weight (C); sum
     * and @branch as in layernorm_forward()
     */
    void (*rmsnorm_forward)(struct kernel_device *device, void *output, float *rstd, void *sum,
                            const void *input, const void *branch, const void *weight,
                            float epsilon, size_t rows, size_t width);
    /* @input: the values that forward normalized; ADDS to d_input (N,C), as layernorm_backward();
     * accumulates d_weight (C) */
    void (*rmsnorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                             const void *d_output, const void *input, const void *weight,
                             const float *rstd, size_t rows, size_t width);

    /* output (N,O) = input (N,I) * weight + bias (O); bias may be NULL */
    void (*linear_forward)(struct kernel_device *device, void *output, const void *input,
                           const void *weight, const void *bias, struct kernel_linear shape);
    /* before (N,O) as linear_forward() computes it, output = GELU of before; rows without a
     * stride */
    void (*linear_gelu_forward)(struct kernel_device *device, void *output, void *before,
                                const void *input, const void *weight, const void *bias,
                                struct kernel_linear shape);
    /* d_input (N,I) is overwritten (NULL: not wanted, and @weight is not read); accumulates
       d_weight and d_bias (NULL: none) */
    void (*linear_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                            float *d_bias, const void *d_output, const void *input,
                            const void *weight, struct kernel_linear shape);
    /* the same for @input = GELU of @before (N,I): d_before (N,I) is overwritten; rows without a
     * stride */
    void (*linear_gelu_backward)(struct kernel_device *device, void *d_before, float *d_weight,
                                 float *d_bias, const void *d_output, const void *input,
                                 const void *before, const void *weight,
                                 struct kernel_linear shape);

    /*
     * Choose the implementation of attention for @shape and take its workspace. Call once per
     * shape, before a step and never within one, because it may take seconds. The backend's own
     * kernels compute a shape that was not prepared. -ENOMEM: nothing was chosen; -EIO, -ENOSPC:
     * the same, and synchronize() has the reason.
     */
    int (*attention_prepare)(struct kernel_device *device,
                             struct kernel_attention shape) CHECK_RESULT;
    /* causal; grouped queries (Ainslie et al., "GQA", 2023) if K < H; qkv (B,T,C+2KD) = [q|k|v],
       each head's columns contiguous; output (B,T,C); log_sum (B,H,T) f32: the log-sum-exp of each
       row of scaled scores, kept for backward */
    void (*attention_forward)(struct kernel_device *device, void *output, float *log_sum,
                              const void *qkv, struct kernel_attention shape);
    /* d_qkv (B,T,C+2KD) is overwritten */
    void (*attention_backward)(struct kernel_device *device, void *d_qkv, const void *d_output,
                               const void *output, const float *log_sum, const void *qkv,
                               struct kernel_attention shape);

    /*
     * RMS norm of each head of queries and keys, before the rotary embedding (Dehghani et al.,
     * "Scaling Vision Transformers to 22 Billion Parameters", 2023; Qwen3): output (B,T,C+2KD) from
     * qkv. Queries and keys are normalized over the D columns of each head and multiplied by
     * q_weight (D) and k_weight (D); values are copied. rstd (N,H+K) f32
     */
    void (*headnorm_forward)(struct kernel_device *device, void *output, float *rstd,
                             const void *qkv, const void *q_weight, const void *k_weight,
                             float epsilon, struct kernel_attention shape);
    /* d_qkv: the output's gradient is replaced by that of @qkv; accumulates d_q_weight, d_k_weight
     * (D) */
    void (*headnorm_backward)(struct kernel_device *device, void *d_qkv, float *d_q_weight,
                              float *d_k_weight, const void *qkv, const void *q_weight,
                              const void *k_weight, const float *rstd,
                              struct kernel_attention shape);

    /*
     * Rotary position embedding (Su et al., "RoFormer", 2021), as in Hugging Face's Llama: turns
     * the queries and keys of qkv in place. Columns c and c + D/2 of a head are a pair; angles
     * (T,D) f32: for each position the cosines of D/2 angles, then their sines. D is even.
     */
    void (*rotary_forward)(struct kernel_device *device, void *qkv, const float *angles,
                           struct kernel_attention shape);
    /* turns the gradients of queries and keys back, in place */
    void (*rotary_backward)(struct kernel_device *device, void *d_qkv, const float *angles,
                            struct kernel_attention shape);

    /* GELU, tanh form, as GPT-2 */
    void (*gelu_forward)(struct kernel_device *device, void *output, const void *input,
                         size_t count);
    /* d_input is overwritten; may be the same memory as d_output */
    void (*gelu_backward)(struct kernel_device *device, void *d_input, const void *d_output,
                          const void *input, size_t count);

    /* SwiGLU (Shazeer, 2020): output (N,I) = silu(gate) up of gate_up (N,2I) = [gate|up] */
    void (*swiglu_forward)(struct kernel_device *device, void *output, const void *gate_up,
                           size_t rows, size_t width);
    /* d_gate_up (N,2I) is overwritten; may be the same memory as gate_up */
    void (*swiglu_backward)(struct kernel_device *device, void *d_gate_up, const void *d_output,
                            const void *gate_up, size_t rows, size_t width);

    /* output = a + b, activations; output may be a or b */
    void (*residual)(struct kernel_device *device, void *output, const void *a, const void *b,
                     size_t count);

    /* losses (N) f32 from logits (N,V), targets (N) i32. Target -1 means no target: the row's loss,
     * and its gradient in cross_entropy_fused(), are 0 for any logits. Rows of logits are @stride
     * >= V elements apart, and elements between two rows are neither read nor written */
    void (*cross_entropy_forward)(struct kernel_device *device, float *losses, const void *logits,
                                  const int32_t *targets, size_t rows, size_t vocab, size_t stride);
    /* the same, and logits become their own gradient times @scale, in place */
    void (*cross_entropy_fused)(struct kernel_device *device, float *losses, void *logits,
                                const int32_t *targets, float scale, size_t rows, size_t vocab,
                                size_t stride);

    /* one AdamW step on several flat tensors, with their weights */
    void (*adamw)(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                  size_t tensor_count, const struct kernel_adamw *options);
    /* weights = parameters in the type of the activations; values = activations as f32 */
    void (*weights)(struct kernel_device *device, void *weights, const float *parameters,
                    size_t count);
    void (*values)(struct kernel_device *device, float *values, const void *activations,
                   size_t count);
    /* Compute the sum of squares of each of several tensors: f64 partial sums over chunks of
     * KERNEL_NORM_CHUNK from a tensor's start, in one fixed order inside a chunk; chunks are added
     * in index order. Wait once for the compute queue; NAN after a failure. */
    void (*norms_squared)(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                          size_t tensor_count, double *ret_sums);
    /* Compute for each of several tensors the sum over its words (the bits of an element) w_k of
       w_k * (2k + 1), the factor modulo 2^32, the sum modulo 2^64: any change of a single element
       changes it, and all backends give the same sum for the same bits. Wait once for the compute
       queue; undefined after a failure. */
    void (*digests)(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                    size_t tensor_count, uint64_t *ret_digests);
    /* output = a + b, f32, elementwise; output may be a or b: one node of the reduction tree */
    void (*tree_add)(struct kernel_device *device, float *output, const float *a, const float *b,
                     size_t count);
};

/** kernel_cpu() - return the CPU backend, which is always available */
const struct kernel *kernel_cpu(void);

#ifdef __cplusplus
}
#endif
