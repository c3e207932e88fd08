#include "parity/oracle.h"

#include <math.h>

void oracle_embedding(double *output, const int32_t *tokens, const double *token_table,
                      const double *position_table, size_t batch, size_t context, size_t width)
{
    for (size_t b = 0; b < batch; b++)
        for (size_t t = 0; t < context; t++)
            for (size_t c = 0; c < width; c++) {
                size_t row = b * context + t;
                output[row * width + c] =
                    token_table[(size_t)tokens[row] * width + c] + position_table[t * width + c];
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

/* One query: @query, @key and @value are rows of qkv, 3C apart. */
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
    for (size_t b = 0; b < shape.batch; b++)
        for (size_t h = 0; h < shape.heads; h++)
            for (size_t t = 0; t < T; t++) {
                const double *head = qkv + b * T * 3 * C + h * depth;
                double *out = output + (b * T + t) * C + h * depth;
                double sum;
                attend(out, &sum, head + t * 3 * C, head + C, head + 2 * C, t + 1, depth, 3 * C);
                if (log_sum)
                    log_sum[(b * shape.heads + h) * T + t] = sum;
            }
}

void oracle_gelu(double *output, const double *input, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = input[i];
        output[i] = x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
}

void oracle_cross_entropy(double *losses, const double *logits, const int32_t *targets, size_t rows,
                          size_t vocab)
{
    for (size_t n = 0; n < rows; n++) {
        const double *x = logits + n * vocab;
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
