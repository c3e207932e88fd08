/*
 * RMS normalization (Zhang and Sennrich, 2019), which divides a row by the root of its mean square.
 * Rows are split among the threads, but columns for the gradient of the weight, as in layernorm.c.
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

    r->new_rstd[row] = row_rmsnorm(r->output + row * r->width, x, r->weight, r->epsilon, r->width);
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        forward_row(context, row);
}

static void backward_row(const struct rmsnorm *r, size_t row)
{
    size_t at = row * r->width;

    row_rmsnorm_backward(r->d_input + at, r->d_input + at, r->d_output + at, r->input + at,
                         r->weight, r->rstd[row], r->width);
}

static void backward_input_share(const void *context, size_t begin, size_t end,
                                 struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        backward_row(context, row);
}

/* Add one vector of columns, whose sum stays in a register over all rows. */
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
