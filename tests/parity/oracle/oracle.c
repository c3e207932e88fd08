#include "parity/oracle/oracle.h"

#include <math.h>

void oracle_embedding(double *output, const int32_t *tokens, const double *token_table,
                      const double *position_table, size_t batch, size_t context, size_t width)
{
    for (size_t b = 0; b < batch; b++)
        for (size_t t = 0; t < context; t++)
            for (size_t c = 0; c < width; c++) {
                size_t row = b * context + t;
                output[row * width + c] = token_table[(size_t)tokens[row] * width + c];
                if (position_table)
                    output[row * width + c] += position_table[t * width + c];
            }
}

void oracle_layernorm(double *output, double *mean, double *rstd, const double *input,
                      const double *weight, const double *bias, size_t rows, size_t width)
{
    for (size_t n = 0; n < rows; n++) {
        const double *x = input + n * width;
        double average = 0, variance = 0;
        for (size_t c = 0; c < width; c++)
            average += x[c] / (double)width;
        for (size_t c = 0; c < width; c++)
            variance += (x[c] - average) * (x[c] - average) / (double)width;
        for (size_t c = 0; c < width; c++)
            output[n * width + c] = (x[c] - average) / sqrt(variance + 1e-5) * weight[c] + bias[c];
        if (mean)
            mean[n] = average;
        if (rstd)
            rstd[n] = 1 / sqrt(variance + 1e-5);
    }
}

void oracle_rmsnorm(double *output, double *rstd, const double *input, const double *weight,
                    double epsilon, size_t rows, size_t width)
{
    for (size_t n = 0; n < rows; n++) {
        const double *x = input + n * width;
        double square = 0;
        for (size_t c = 0; c < width; c++)
            square += x[c] * x[c] / (double)width;
        for (size_t c = 0; c < width; c++)
            output[n * width + c] = x[c] / sqrt(square + epsilon) * weight[c];
        if (rstd)
            rstd[n] = 1 / sqrt(square + epsilon);
    }
}

void oracle_linear(double *output, const double *input, const double *weight, const double *bias,
                   struct kernel_linear shape)
{
    for (size_t n = 0; n < shape.rows; n++)
        for (size_t o = 0; o < shape.out; o++) {
            double sum = bias ? bias[o] : 0;
            for (size_t i = 0; i < shape.in; i++)
                sum += input[n * shape.in + i] * (shape.layout == KERNEL_WEIGHT_IN_OUT
                                                      ? weight[i * shape.out + o]
                                                      : weight[o * shape.in + i]);
            output[n * shape.out + o] = sum;
        }
}

static double score(const double *query, const double *key, size_t depth)
{
    double sum = 0;
    for (size_t d = 0; d < depth; d++)
        sum += query[d] * key[d];
    return sum / sqrt((double)depth);
}

/* One query: @query, @key and @value are rows of qkv, @stride apart. */
static void attend(double *output, double *log_sum, const double *query, const double *key,
                   const double *value, size_t keys, size_t depth, size_t stride)
{
    double total = 0;
    for (size_t k = 0; k < keys; k++)
        total += exp(score(query, key + k * stride, depth));
    for (size_t d = 0; d < depth; d++)
        output[d] = 0;
    for (size_t k = 0; k < keys; k++)
        for (size_t d = 0; d < depth; d++)
            output[d] += exp(score(query, key + k * stride, depth)) / total * value[k * stride + d];
    *log_sum = log(total);
}

void oracle_attention(double *output, double *log_sum, const double *qkv,
                      struct kernel_attention shape)
{
    size_t C = shape.width, T = shape.context, depth = C / shape.heads;
    size_t kv = shape.kv_heads * depth, stride = C + 2 * kv;
    for (size_t b = 0; b < shape.batch; b++)
        for (size_t h = 0; h < shape.heads; h++)
            for (size_t t = 0; t < T; t++) {
                const double *rows = qkv + b * T * stride;
                const double *query = rows + t * stride + h * depth;
                const double *key = rows + C + h * shape.kv_heads / shape.heads * depth;
                double *out = output + (b * T + t) * C + h * depth;
                double sum;
                attend(out, &sum, query, key, key + kv, t + 1, depth, stride);
                if (log_sum)
                    log_sum[(b * shape.heads + h) * T + t] = sum;
            }
}

void oracle_rotary(double *turned, const double *qkv, double theta, struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads, half = depth / 2;
    size_t all = shape.heads + 2 * shape.kv_heads;
    for (size_t n = 0; n < shape.batch * shape.context; n++)
        for (size_t h = 0; h < all; h++)
            for (size_t c = 0; c < half; c++) {
                bool value = h >= shape.heads + shape.kv_heads;
                double position = value ? 0 : (double)(n % shape.context);
                double angle = position * pow(theta, -2.0 * (double)c / (double)depth);
                size_t at = (n * all + h) * depth + c;
                turned[at] = qkv[at] * cos(angle) - qkv[at + half] * sin(angle);
                turned[at + half] = qkv[at + half] * cos(angle) + qkv[at] * sin(angle);
            }
}

void oracle_gelu(double *output, const double *input, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = input[i];
        output[i] = x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
}

void oracle_swiglu(double *output, const double *gate_up, size_t rows, size_t width)
{
    for (size_t n = 0; n < rows; n++)
        for (size_t c = 0; c < width; c++) {
            double gate = gate_up[n * 2 * width + c], up = gate_up[n * 2 * width + width + c];
            output[n * width + c] = gate / (1 + exp(-gate)) * up;
        }
}

void oracle_cross_entropy(double *losses, const double *logits, const int32_t *targets, size_t rows,
                          size_t vocab)
{
    for (size_t n = 0; n < rows; n++) {
        const double *x = logits + n * vocab;
        losses[n] = 0;
        if (targets[n] < 0)
            continue;
        double highest = -INFINITY, sum = 0;
        for (size_t v = 0; v < vocab; v++)
            highest = fmax(highest, x[v]);
        for (size_t v = 0; v < vocab; v++)
            sum += exp(x[v] - highest);
        losses[n] = log(sum) + highest - x[targets[n]];
    }
}

void oracle_adamw(double *parameter, double *first_moment, double *second_moment,
                  const double *gradient, size_t count, const struct kernel_adamw *options)
{
    double beta1 = (double)options->beta1, beta2 = (double)options->beta2;
    double lr = (double)options->lr, step = (double)options->step;

    for (size_t i = 0; i < count; i++) {
        double g = gradient[i] * (double)options->gradient_scale;
        first_moment[i] = beta1 * first_moment[i] + (1 - beta1) * g;
        second_moment[i] = beta2 * second_moment[i] + (1 - beta2) * g * g;
        double m = first_moment[i] / (1 - pow(beta1, step));
        double v = second_moment[i] / (1 - pow(beta2, step));
        parameter[i] -= lr * (double)options->weight_decay * parameter[i];
        parameter[i] -= lr * m / (sqrt(v) + (double)options->epsilon);
    }
}
