/*
 * Softmax cross-entropy of a row of logits x and its target t:
 *
 *     loss = log sum exp(x - highest) + highest - x[t]
 *     d loss / d x = exp(x - highest) / sum - [t]
 *
 * A row of a large vocabulary just fits into the L2 cache, so it is read from memory once, for its
 * highest element; the other passes find it in the cache. The fused form stores the exponentials in
 * the row while it adds them, so each is computed once.
 */
#include <string.h>

#include "base/logarithm.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/vector_math.h"

/* Exponentials are added in blocks: fewer roundings meet a large sum. */
#define BLOCK 1024

struct cross_entropy {
    float *losses;
    const float *logits;
    float *gradients; /* NULL, or the memory of the logits */
    const int32_t *targets;
    float scale;
    size_t vocab, stride; /* elements of a row, and from one to the next */
};

/* @exponentials: NULL, or memory for the exponentials; may be @row itself */
static float sum_block(float *exponentials, const float *row, float highest, size_t count)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec x = vec_load_part(row + c, count - c, -INFINITY);
        vec e = vec_exp(vec_sub(x, vec_set(highest)));
        sum = vec_add(sum, e);
        if (exponentials)
            vec_store_part(exponentials + c, e, count - c);
    }
    return vec_sum(sum);
}

/* Write loss and gradients of a row whose target does not count. */
static void ignored_row(const struct cross_entropy *ce, size_t row)
{
    ce->losses[row] = 0.0f;
    if (ce->gradients)
        memset(ce->gradients + row * ce->stride, 0, ce->vocab * sizeof(float));
}

static void entropy_row(const struct cross_entropy *ce, size_t row)
{
    const float *logits = ce->logits + row * ce->stride;
    float *gradients = ce->gradients ? ce->gradients + row * ce->stride : NULL;
    int32_t target = ce->targets[row];
    assert((size_t)target < ce->vocab);

    float target_logit = logits[target];
    float highest = row_highest(logits, ce->vocab), sum = 0.0f;
    for (size_t c = 0; c < ce->vocab; c += BLOCK)
        sum += sum_block(gradients ? gradients + c : NULL, logits + c, highest,
                         MIN(ce->vocab - c, (size_t)BLOCK));
    ce->losses[row] = (float)(logarithm((double)sum) + (double)highest - (double)target_logit);
    if (gradients) {
        row_scale(gradients, ce->scale / sum, ce->vocab);
        gradients[target] -= ce->scale;
    }
}

static void entropy_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    (void)scratch;
    const struct cross_entropy *ce = context;

    for (size_t row = begin; row < end; row++)
        if (ce->targets[row] < 0)
            ignored_row(ce, row);
        else
            entropy_row(ce, row);
}

void OPERATION(cross_entropy_forward)(struct kernel_device *device, float *losses,
                                      const void *logits, const int32_t *targets, size_t rows,
                                      size_t vocab, size_t stride)
{
    struct cross_entropy ce = {losses, logits, NULL, targets, 0.0f, vocab, stride};
    device_for(device, rows, 1, entropy_share, &ce);
}

void OPERATION(cross_entropy_fused)(struct kernel_device *device, float *losses, void *logits,
                                    const int32_t *targets, float scale, size_t rows, size_t vocab,
                                    size_t stride)
{
    struct cross_entropy ce = {losses, logits, logits, targets, scale, vocab, stride};
    device_for(device, rows, 1, entropy_share, &ce);
}
