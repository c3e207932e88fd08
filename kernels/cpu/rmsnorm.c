/*
 * RMS normalization (Zhang and Sennrich, 2019), which divides a row by the root of its mean square.
 * Split among the threads as layernorm.c is: rows, but columns for the gradient of the weight.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"

#define ROW_GRAIN    8
#define COLUMN_GRAIN 64

struct rmsnorm {
    const float *input, *branch, *weight;
    float *output, *sum, *new_rstd;
    const float *d_output, *rstd;
    float *d_input, *d_weight;
    float epsilon;
    size_t rows, width;
};

static void forward_row(const struct rmsnorm *r, size_t row)
{
    const float *x = row_stream(r->sum, r->input, r->branch, row, r->width);
    float *output = r->output + row * r->width;
    float rstd = 1.0f / sqrtf(row_dot(x, x, r->width) / (float)r->width + r->epsilon);

    for (size_t c = 0; c < r->width; c += VEC_LANES) {
        size_t left = r->width - c;
        vec normal = vec_mul(vec_load_part(x + c, left, 0.0f), vec_set(rstd));
        vec_store_part(output + c, vec_mul(normal, vec_load_part(r->weight + c, left, 0.0f)), left);
    }
    r->new_rstd[row] = rstd;
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        forward_row(context, row);
}

/*
 * With n = x rstd and g = d_output weight:
 *     d_input += rstd (g - n times mean over the row of g n)
 */
static void backward_row(const struct rmsnorm *r, size_t row)
{
    const float *input = r->input + row * r->width, *d_output = r->d_output + row * r->width;
    float *d_input = r->d_input + row * r->width;
    vec rstd = vec_set(r->rstd[row]), gn_sum = vec_zero();

    for (size_t c = 0; c < r->width; c += VEC_LANES) {
        size_t left = r->width - c;
        vec normal = vec_mul(vec_load_part(input + c, left, 0.0f), rstd);
        vec g = vec_mul(vec_load_part(d_output + c, left, 0.0f),
                        vec_load_part(r->weight + c, left, 0.0f));
        gn_sum = vec_fma(g, normal, gn_sum);
    }
    vec gn_mean = vec_set(vec_sum(gn_sum) / (float)r->width);
    for (size_t c = 0; c < r->width; c += VEC_LANES) {
        size_t left = r->width - c;
        vec normal = vec_mul(vec_load_part(input + c, left, 0.0f), rstd);
        vec g = vec_mul(vec_load_part(d_output + c, left, 0.0f),
                        vec_load_part(r->weight + c, left, 0.0f));
        vec before = vec_load_part(d_input + c, left, 0.0f);
        vec_store_part(d_input + c, vec_fma(vec_sub(g, vec_mul(normal, gn_mean)), rstd, before),
                       left);
    }
}

static void backward_input_share(const void *context, size_t begin, size_t end,
                                 struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        backward_row(context, row);
}

/* One vector of columns: its sum stays in a register over all rows. */
static void backward_columns(const struct rmsnorm *r, size_t column, size_t left)
{
    vec sum = vec_zero();

    for (size_t row = 0; row < r->rows; row++) {
        vec x = vec_load_part(r->input + row * r->width + column, left, 0.0f);
        vec g = vec_load_part(r->d_output + row * r->width + column, left, 0.0f);
        sum = vec_fma(g, vec_mul(x, vec_set(r->rstd[row])), sum);
    }
    vec before = vec_load_part(r->d_weight + column, left, 0.0f);
    vec_store_part(r->d_weight + column, vec_add(before, sum), left);
}

static void backward_weight_share(const void *context, size_t begin, size_t end,
                                  struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t column = begin; column < end; column += VEC_LANES)
        backward_columns(context, column, end - column);
}

void OPERATION(rmsnorm_forward)(struct kernel_device *device, void *output, float *rstd, void *sum,
                                const void *input, const void *branch, const void *weight,
                                float epsilon, size_t rows, size_t width)
{
    struct rmsnorm r = {.input = input,
                        .branch = branch,
                        .weight = weight,
                        .output = output,
                        .sum = sum,
                        .new_rstd = rstd,
                        .epsilon = epsilon,
                        .width = width};
    device_for(device, rows, ROW_GRAIN, forward_share, &r);
}

void OPERATION(rmsnorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                 const void *d_output, const void *input, const void *weight,
                                 const float *rstd, size_t rows, size_t width)
{
    struct rmsnorm r = {.input = input,
                        .weight = weight,
                        .d_output = d_output,
                        .rstd = rstd,
                        .d_input = d_input,
                        .d_weight = d_weight,
                        .rows = rows,
                        .width = width};
    device_for(device, rows, ROW_GRAIN, backward_input_share, &r);
    device_for(device, width, COLUMN_GRAIN, backward_weight_share, &r);
}
