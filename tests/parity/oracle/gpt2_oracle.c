#include "parity/oracle/gpt2_oracle.h"

#include <math.h>
#include <stdlib.h>

void gpt2_norm(double *output, const double *input, const double *weight, const double *bias,
               size_t width)
{
    double mean = 0.0, variance = 0.0;
    for (size_t i = 0; i < width; i++)
        mean += input[i] / (double)width;
    for (size_t i = 0; i < width; i++)
        variance += (input[i] - mean) * (input[i] - mean) / (double)width;
    for (size_t i = 0; i < width; i++)
        output[i] = (input[i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
}

/* Conv1D: weight (in, out) */
static void gpt2_linear(double *output, const double *input, const double *weight,
                        const double *bias, size_t in, size_t out)
{
    for (size_t o = 0; o < out; o++) {
        output[o] = bias[o];
        for (size_t i = 0; i < in; i++)
            output[o] += input[i] * weight[i * out + o];
    }
}

static double gpt2_gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

void gpt2_attention(const struct oracle *oracle, unsigned unit, double *stream)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *qkv = calloc(context * 3 * width, sizeof(double));
    double *mixed = calloc(context * width, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        gpt2_norm(norm, stream + t * width, oracle_tensor(oracle, unit, "ln_1.weight"),
                  oracle_tensor(oracle, unit, "ln_1.bias"), width);
        gpt2_linear(qkv + t * 3 * width, norm, oracle_tensor(oracle, unit, "c_attn.weight"),
                    oracle_tensor(oracle, unit, "c_attn.bias"), width, 3 * width);
    }
    for (size_t head = 0; head < oracle->spec.heads; head++) {
        const double *q = qkv + head * (width / oracle->spec.heads);
        oracle_attend(mixed + (q - qkv), width, q, q + width, q + 2 * width, 3 * width, context,
                      width / oracle->spec.heads);
    }
    for (size_t t = 0; t < context; t++) {
        gpt2_linear(projected, mixed + t * width, oracle_tensor(oracle, unit, "c_proj.weight"),
                    oracle_tensor(oracle, unit, "c_proj.bias"), width, width);
        for (size_t i = 0; i < width; i++)
            stream[t * width + i] += projected[i];
    }
    free(norm);
    free(projected);
    free(qkv);
    free(mixed);
}

void gpt2_mlp(const struct oracle *oracle, unsigned unit, double *stream)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *wide = calloc(4 * width, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        double *row = stream + t * width;
        gpt2_norm(norm, row, oracle_tensor(oracle, unit, "ln_2.weight"),
                  oracle_tensor(oracle, unit, "ln_2.bias"), width);
        gpt2_linear(wide, norm, oracle_tensor(oracle, unit, "c_fc.weight"),
                    oracle_tensor(oracle, unit, "c_fc.bias"), width, 4 * width);
        for (size_t i = 0; i < 4 * width; i++)
            wide[i] = gpt2_gelu(wide[i]);
        gpt2_linear(projected, wide, oracle_tensor(oracle, unit, "c_proj.weight"),
                    oracle_tensor(oracle, unit, "c_proj.bias"), 4 * width, width);
        for (size_t i = 0; i < width; i++)
            row[i] += projected[i];
    }
    free(norm);
    free(projected);
    free(wide);
}
