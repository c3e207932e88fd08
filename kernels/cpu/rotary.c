/*
 * Rotary position embedding (Su et al., "RoFormer", 2021): turn each pair of columns of a query or
 * key by an angle that grows with the position. Backward turns the gradient back.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

#define ROW_GRAIN 4

struct rotary {
    float *qkv;
    const float *angles;
    float sign; /* of the angle: -1 turns back */
    struct kernel_attention shape;
};

/* (x, y) becomes (x cos - y sin, y cos + x sin). */
static void turn_head(float *head, const float *angles, float sign, size_t half)
{
    for (size_t c = 0; c < half; c += VEC_LANES) {
        size_t left = half - c;
        vec x = vec_load_part(head + c, left, 0.0f);
        vec y = vec_load_part(head + half + c, left, 0.0f);
        vec cosine = vec_load_part(angles + c, left, 0.0f);
        vec sine = vec_mul(vec_load_part(angles + half + c, left, 0.0f), vec_set(sign));
        vec_store_part(head + c, vec_sub(vec_mul(x, cosine), vec_mul(y, sine)), left);
        vec_store_part(head + half + c, vec_fma(x, sine, vec_mul(y, cosine)), left);
    }
}

static void turn_share(const void *context, size_t begin, size_t end,
                       struct device_scratch *scratch)
{
    const struct rotary *r = context;
    const struct kernel_attention *s = &r->shape;
    size_t depth = s->width / s->heads, stride = s->width + 2 * s->kv_heads * depth;
    (void)scratch;

    for (size_t row = begin; row < end; row++)
        for (size_t head = 0; head < s->heads + s->kv_heads; head++)
            turn_head(r->qkv + row * stride + head * depth, r->angles + row % s->context * depth,
                      r->sign, depth / 2);
}

static void turn(struct kernel_device *device, const struct rotary *rotary)
{
    const struct kernel_attention *s = &rotary->shape;

    assert(s->width / s->heads % 2 == 0);
    device_for(device, s->batch * s->context, ROW_GRAIN, turn_share, rotary);
}

void OPERATION(rotary_forward)(struct kernel_device *device, void *qkv, const float *angles,
                               struct kernel_attention shape)
{
    turn(device, &(struct rotary){qkv, angles, 1.0f, shape});
}

void OPERATION(rotary_backward)(struct kernel_device *device, void *d_qkv, const float *angles,
                                struct kernel_attention shape)
{
    turn(device, &(struct rotary){d_qkv, angles, -1.0f, shape});
}
