/*
 * Layer normalization (Ba, Kiros and Hinton, 2016). Rows are split among the threads. The gradients
 * of weight and bias are sums over rows: for them the columns are split, and each column adds its
 * rows in index order.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"

#define EPSILON      1e-5f
#define ROW_GRAIN    8
#define COLUMN_GRAIN 64

struct layernorm {
    const float *input, *branch, *weight, *bias;
    float *output, *sum, *new_mean, *new_rstd;
    const float *d_output, *mean, *rstd;
    float *d_input, *d_weight, *d_bias;
    size_t rows, width;
};

static float row_mean(const float *row, size_t width)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < width; c += VEC_LANES)
        sum = vec_add(sum, vec_load_part(row + c, width - c, 0.0f));
    return vec_sum(sum) / (float)width;
}

static float row_rstd(const float *row, float mean, size_t width)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < width; c += VEC_LANES) {
        vec centered = vec_sub(vec_load_part(row + c, width - c, mean), vec_set(mean));
        sum = vec_fma(centered, centered, sum);
    }
    return 1.0f / sqrtf(vec_sum(sum) / (float)width + EPSILON);
}

static vec normalize(vec x, float mean, float rstd)
{
    return vec_mul(vec_sub(x, vec_set(mean)), vec_set(rstd));
}

static void forward_row(const struct layernorm *l, size_t row)
{
    const float *input = row_stream(l->sum, l->input, l->branch, row, l->width);
    float *output = l->output + row * l->width;
    float mean = row_mean(input, l->width);
    float rstd = row_rstd(input, mean, l->width);

    for (size_t c = 0; c < l->width; c += VEC_LANES) {
        size_t left = l->width - c;
        vec normal = normalize(vec_load_part(input + c, left, 0.0f), mean, rstd);
        vec result = vec_fma(normal, vec_load_part(l->weight + c, left, 0.0f),
                             vec_load_part(l->bias + c, left, 0.0f));
        vec_store_part(output + c, result, left);
    }
    l->new_mean[row] = mean;
    l->new_rstd[row] = rstd;
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        forward_row(context, row);
}

/*
 * With n = (x - mean) rstd and g = d_output weight:
 *     d_input += rstd (g - mean over the row of g - n times mean over the row of g n)
 */
static void backward_row(const struct layernorm *l, size_t row)
{
    const float *input = l->input + row * l->width, *d_output = l->d_output + row * l->width;
    float *d_input = l->d_input + row * l->width;
    float mean = l->mean[row], rstd = l->rstd[row], width = (float)l->width;
    vec g_sum = vec_zero(), gn_sum = vec_zero();

    for (size_t c = 0; c < l->width; c += VEC_LANES) {
        size_t left = l->width - c;
        vec normal = normalize(vec_load_part(input + c, left, 0.0f), mean, rstd);
        vec g = vec_mul(vec_load_part(d_output + c, left, 0.0f),
                        vec_load_part(l->weight + c, left, 0.0f));
        g_sum = vec_add(g_sum, g);
        gn_sum = vec_fma(g, normal, gn_sum);
    }
    vec g_mean = vec_set(vec_sum(g_sum) / width), gn_mean = vec_set(vec_sum(gn_sum) / width);
    for (size_t c = 0; c < l->width; c += VEC_LANES) {
        size_t left = l->width - c;
        vec normal = normalize(vec_load_part(input + c, left, 0.0f), mean, rstd);
        vec g = vec_mul(vec_load_part(d_output + c, left, 0.0f),
                        vec_load_part(l->weight + c, left, 0.0f));
        vec centered = vec_sub(vec_sub(g, g_mean), vec_mul(normal, gn_mean));
        vec before = vec_load_part(d_input + c, left, 0.0f);
        vec_store_part(d_input + c, vec_fma(centered, vec_set(rstd), before), left);
    }
}

static void backward_input_share(const void *context, size_t begin, size_t end,
                                 struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        backward_row(context, row);
}

/* Add one vector of columns, whose sums stay in registers over all rows. */
static void backward_columns(const struct layernorm *l, size_t column, size_t left)
{
    vec weight_sum = vec_zero(), bias_sum = vec_zero();
    const float *input = l->input + column, *d_output = l->d_output + column;

    for (size_t row = 0; row < l->rows; row++) {
        vec x = vec_load_part(input + row * l->width, left, 0.0f);
        vec g = vec_load_part(d_output + row * l->width, left, 0.0f);
        weight_sum = vec_fma(g, normalize(x, l->mean[row], l->rstd[row]), weight_sum);
        bias_sum = vec_add(bias_sum, g);
    }
    vec d_weight = vec_load_part(l->d_weight + column, left, 0.0f);
    vec d_bias = vec_load_part(l->d_bias + column, left, 0.0f);
    vec_store_part(l->d_weight + column, vec_add(d_weight, weight_sum), left);
    vec_store_part(l->d_bias + column, vec_add(d_bias, bias_sum), left);
}

static void backward_parameters_share(const void *context, size_t begin, size_t end,
                                      struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t column = begin; column < end; column += VEC_LANES)
        backward_columns(context, column, end - column);
}

void OPERATION(layernorm_forward)(struct kernel_device *device, void *output, float *mean,
                                  float *rstd, void *sum, const void *input, const void *branch,
                                  const void *weight, const void *bias, size_t rows, size_t width)
{
    struct layernorm l = {.input = input,
                          .branch = branch,
                          .weight = weight,
                          .bias = bias,
                          .output = output,
                          .sum = sum,
                          .new_mean = mean,
                          .new_rstd = rstd,
                          .width = width};
    device_for(device, rows, ROW_GRAIN, forward_share, &l);
}

void OPERATION(layernorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                   float *d_bias, const void *d_output, const void *input,
                                   const void *weight, const float *mean, const float *rstd,
                                   size_t rows, size_t width)
{
    struct layernorm l = {.input = input,
                          .weight = weight,
                          .d_output = d_output,
                          .mean = mean,
                          .rstd = rstd,
                          .d_input = d_input,
                          .d_weight = d_weight,
                          .d_bias = d_bias,
                          .rows = rows,
                          .width = width};
    device_for(device, rows, ROW_GRAIN, backward_input_share, &l);
    device_for(device, width, COLUMN_GRAIN, backward_parameters_share, &l);
}
