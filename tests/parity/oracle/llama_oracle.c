#include "parity/oracle/llama_oracle.h"

#include <math.h>
#include <stdlib.h>

/* @output may be @input. */
static void llama_norm_of(const struct oracle *oracle, double *output, const double *input,
                          const double *weight, size_t width)
{
    double square = 0.0;
    for (size_t i = 0; i < width; i++)
        square += input[i] * input[i] / (double)width;
    for (size_t i = 0; i < width; i++)
        output[i] = input[i] / sqrt(square + oracle->spec.norm_epsilon) * weight[i];
}

void llama_norm(const struct oracle *oracle, double *output, const double *input,
                const double *weight)
{
    llama_norm_of(oracle, output, input, weight, oracle->spec.width);
}

/* torch.nn.Linear without bias: weight (out, in) */
static void llama_linear(double *output, const double *input, const double *weight, size_t in,
                         size_t out)
{
    for (size_t o = 0; o < out; o++) {
        output[o] = 0.0;
        for (size_t i = 0; i < in; i++)
            output[o] += input[i] * weight[o * in + i];
    }
}

/* Return the positions of one turn of pair @pair, named as in Llama 3.1's own code. */
static double llama_wavelength(const struct model_spec *spec, size_t pair)
{
    const struct model_rope_scaling *s = &spec->rope_scaling;
    double length =
        2.0 * M_PI * pow(spec->rope_theta, 2.0 * (double)pair / (double)spec->head_width);
    double longest = s->original_context / s->low_frequency_factor;
    double shortest = s->original_context / s->high_frequency_factor;

    if (s->type == MODEL_ROPE_PLAIN || (s->type == MODEL_ROPE_LLAMA3 && length < shortest))
        return length;
    if (s->type == MODEL_ROPE_LINEAR || length > longest)
        return length * s->factor;
    double smooth = (s->original_context / length - s->low_frequency_factor) /
                    (s->high_frequency_factor - s->low_frequency_factor);
    return 1.0 / ((1.0 - smooth) / (length * s->factor) + smooth / length);
}

/* Half of a head's columns against the other half. */
static void llama_turn(const struct model_spec *spec, double *head, size_t position)
{
    size_t size = spec->head_width;
    for (size_t i = 0; i < size / 2; i++) {
        double angle = 2.0 * M_PI * (double)position / llama_wavelength(spec, i);
        double x = head[i], y = head[i + size / 2];
        head[i] = x * cos(angle) - y * sin(angle);
        head[i + size / 2] = y * cos(angle) + x * sin(angle);
    }
}

static void llama_add(double *to, const double *bias, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += bias[i];
}

/* One row of q|k|v from the norm of one token. */
static void llama_project(const struct oracle *oracle, unsigned unit, size_t position,
                          const double *norm, double *row)
{
    const struct model_spec *spec = &oracle->spec;
    size_t queries = (size_t)spec->heads * spec->head_width;
    size_t keys = (size_t)spec->kv_heads * spec->head_width;

    llama_linear(row, norm, oracle_tensor(oracle, unit, "q_proj.weight"), spec->width, queries);
    llama_linear(row + queries, norm, oracle_tensor(oracle, unit, "k_proj.weight"), spec->width,
                 keys);
    llama_linear(row + queries + keys, norm, oracle_tensor(oracle, unit, "v_proj.weight"),
                 spec->width, keys);
    if (spec->qkv_bias) {
        llama_add(row, oracle_tensor(oracle, unit, "q_proj.bias"), queries);
        llama_add(row + queries, oracle_tensor(oracle, unit, "k_proj.bias"), keys);
        llama_add(row + queries + keys, oracle_tensor(oracle, unit, "v_proj.bias"), keys);
    }
    for (size_t head = 0; spec->qk_norm && head < spec->heads + spec->kv_heads; head++) {
        double *columns = row + head * spec->head_width;
        const char *name = head < spec->heads ? "q_norm.weight" : "k_norm.weight";
        llama_norm_of(oracle, columns, columns, oracle_tensor(oracle, unit, name),
                      spec->head_width);
    }
    for (size_t head = 0; head < spec->heads + spec->kv_heads; head++)
        llama_turn(spec, row + head * spec->head_width, position);
}

void llama_attention(const struct oracle *oracle, unsigned unit, double *stream)
{
    const struct model_spec *spec = &oracle->spec;
    size_t context = spec->context, width = spec->width, size = spec->head_width;
    size_t queries = spec->heads * size, keys = spec->kv_heads * size, all = queries + 2 * keys;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *qkv = calloc(context * all, sizeof(double));
    double *mixed = calloc(context * queries, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        llama_norm(oracle, norm, stream + t * width,
                   oracle_tensor(oracle, unit, "input_layernorm.weight"));
        llama_project(oracle, unit, t, norm, qkv + t * all);
    }
    for (size_t head = 0; head < spec->heads; head++) {
        const double *k = qkv + queries + head / (spec->heads / spec->kv_heads) * size;
        oracle_attend(mixed + head * size, queries, qkv + head * size, k, k + keys, all, context,
                      size);
    }
    for (size_t t = 0; t < context; t++) {
        llama_linear(projected, mixed + t * queries, oracle_tensor(oracle, unit, "o_proj.weight"),
                     queries, width);
        for (size_t i = 0; i < width; i++)
            stream[t * width + i] += projected[i];
    }
    free(norm);
    free(projected);
    free(qkv);
    free(mixed);
}

void llama_mlp(const struct oracle *oracle, unsigned unit, double *stream)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    size_t hidden = oracle->spec.hidden;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *gate = calloc(hidden, sizeof(double)), *up = calloc(hidden, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        double *row = stream + t * width;
        llama_norm(oracle, norm, row,
                   oracle_tensor(oracle, unit, "post_attention_layernorm.weight"));
        llama_linear(gate, norm, oracle_tensor(oracle, unit, "gate_proj.weight"), width, hidden);
        llama_linear(up, norm, oracle_tensor(oracle, unit, "up_proj.weight"), width, hidden);
        for (size_t i = 0; i < hidden; i++)
            gate[i] *= up[i] / (1.0 + exp(-gate[i]));
        llama_linear(projected, gate, oracle_tensor(oracle, unit, "down_proj.weight"), hidden,
                     width);
        for (size_t i = 0; i < width; i++)
            row[i] += projected[i];
    }
    free(norm);
    free(projected);
    free(gate);
    free(up);
}
