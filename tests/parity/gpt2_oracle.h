/*
 * GPT-2 written down once more: in double, one token after another, without any of firn's kernels.
 * It shares with the code under test only the names and offsets of tensors.
 */
#pragma once

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/unit.h"

struct oracle {
    struct model_spec spec;
    double *const *parameters; /* flat, by unit */
};

static const double *oracle_tensor(const struct oracle *oracle, unsigned unit, const char *name)
{
    struct unit_layout layout;
    model_unit_layout(&oracle->spec, unit, &layout);
    for (unsigned i = 0; i < layout.tensor_count; i++) {
        size_t length = strlen(layout.tensors[i].name), suffix = strlen(name);
        if (length >= suffix && strcmp(layout.tensors[i].name + length - suffix, name) == 0)
            return oracle->parameters[unit] + layout.tensors[i].offset;
    }
    assert(!"no such tensor");
    return NULL;
}

static void oracle_norm(double *output, const double *input, const double *weight,
                        const double *bias, size_t width)
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
static void oracle_linear(double *output, const double *input, const double *weight,
                          const double *bias, size_t in, size_t out)
{
    for (size_t o = 0; o < out; o++) {
        output[o] = bias[o];
        for (size_t i = 0; i < in; i++)
            output[o] += input[i] * weight[i * out + o];
    }
}

static double oracle_gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* One head of one sequence: q, k, v at stride 3C from @qkv on. */
static void oracle_attend(const struct oracle *oracle, double *output, const double *qkv,
                          size_t head)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    size_t size = width / oracle->spec.heads;
    double *scores = calloc(context, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        const double *query = qkv + t * 3 * width + head * size;
        double sum = 0.0;
        for (size_t u = 0; u <= t; u++) {
            const double *key = qkv + u * 3 * width + width + head * size;
            scores[u] = 0.0;
            for (size_t i = 0; i < size; i++)
                scores[u] += query[i] * key[i];
            scores[u] = exp(scores[u] / sqrt((double)size));
            sum += scores[u];
        }
        for (size_t i = 0; i < size; i++) {
            double mixed = 0.0;
            for (size_t u = 0; u <= t; u++)
                mixed += scores[u] / sum * qkv[u * 3 * width + 2 * width + head * size + i];
            output[t * width + head * size + i] = mixed;
        }
    }
    free(scores);
}

/* stream (T,C) += attention sublayer */
static void oracle_attention(const struct oracle *oracle, unsigned unit, double *stream)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *qkv = calloc(context * 3 * width, sizeof(double));
    double *mixed = calloc(context * width, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        oracle_norm(norm, stream + t * width, oracle_tensor(oracle, unit, "ln_1.weight"),
                    oracle_tensor(oracle, unit, "ln_1.bias"), width);
        oracle_linear(qkv + t * 3 * width, norm, oracle_tensor(oracle, unit, "c_attn.weight"),
                      oracle_tensor(oracle, unit, "c_attn.bias"), width, 3 * width);
    }
    for (size_t head = 0; head < oracle->spec.heads; head++)
        oracle_attend(oracle, mixed, qkv, head);
    for (size_t t = 0; t < context; t++) {
        oracle_linear(projected, mixed + t * width, oracle_tensor(oracle, unit, "c_proj.weight"),
                      oracle_tensor(oracle, unit, "c_proj.bias"), width, width);
        for (size_t i = 0; i < width; i++)
            stream[t * width + i] += projected[i];
    }
    free(norm);
    free(projected);
    free(qkv);
    free(mixed);
}

/* stream (T,C) += MLP sublayer */
static void oracle_mlp(const struct oracle *oracle, unsigned unit, double *stream)
{
    size_t context = oracle->spec.context, width = oracle->spec.width;
    double *norm = calloc(width, sizeof(double)), *projected = calloc(width, sizeof(double));
    double *wide = calloc(4 * width, sizeof(double));

    for (size_t t = 0; t < context; t++) {
        double *row = stream + t * width;
        oracle_norm(norm, row, oracle_tensor(oracle, unit, "ln_2.weight"),
                    oracle_tensor(oracle, unit, "ln_2.bias"), width);
        oracle_linear(wide, norm, oracle_tensor(oracle, unit, "c_fc.weight"),
                      oracle_tensor(oracle, unit, "c_fc.bias"), width, 4 * width);
        for (size_t i = 0; i < 4 * width; i++)
            wide[i] = oracle_gelu(wide[i]);
        oracle_linear(projected, wide, oracle_tensor(oracle, unit, "c_proj.weight"),
                      oracle_tensor(oracle, unit, "c_proj.bias"), 4 * width, width);
        for (size_t i = 0; i < width; i++)
            row[i] += projected[i];
    }
    free(norm);
    free(projected);
    free(wide);
}

/* logits (T,V) of one sequence of T tokens */
static void oracle_logits(const struct oracle *oracle, const int32_t *tokens, double *ret_logits)
{
    const struct model_spec *spec = &oracle->spec;
    size_t context = spec->context, width = spec->width;
    unsigned head = model_unit_count(spec) - 1;
    const double *token_table = oracle_tensor(oracle, 0, "wte.weight");
    const double *position_table = oracle_tensor(oracle, 0, "wpe.weight");
    const double *head_table = oracle_tensor(oracle, head, "lm_head.weight");
    double *stream = calloc(context * width, sizeof(double));
    double *norm = calloc(width, sizeof(double));

    for (size_t t = 0; t < context; t++)
        for (size_t i = 0; i < width; i++)
            stream[t * width + i] =
                token_table[(size_t)tokens[t] * width + i] + position_table[t * width + i];
    for (unsigned layer = 0; layer < spec->layers; layer++) {
        oracle_attention(oracle, 1 + 2 * layer, stream);
        oracle_mlp(oracle, 2 + 2 * layer, stream);
    }
    for (size_t t = 0; t < context; t++) {
        oracle_norm(norm, stream + t * width, oracle_tensor(oracle, head, "ln_f.weight"),
                    oracle_tensor(oracle, head, "ln_f.bias"), width);
        for (size_t v = 0; v < spec->vocab; v++) {
            double *logit = &ret_logits[t * spec->vocab + v];
            *logit = 0.0;
            for (size_t i = 0; i < width; i++)
                *logit += norm[i] * head_table[v * width + i];
        }
    }
    free(stream);
    free(norm);
}

/* The sum of the token losses of @batch sequences. */
static double oracle_loss_sum(const struct oracle *oracle, const int32_t *tokens,
                              const int32_t *targets, size_t batch)
{
    size_t context = oracle->spec.context, vocab = oracle->spec.vocab;
    double *logits = calloc(context * vocab, sizeof(double)), loss = 0.0;

    for (size_t b = 0; b < batch; b++) {
        oracle_logits(oracle, tokens + b * context, logits);
        for (size_t t = 0; t < context; t++) {
            const double *row = logits + t * vocab;
            double sum = 0.0;
            for (size_t v = 0; v < vocab; v++)
                sum += exp(row[v]);
            loss += log(sum) - row[targets[b * context + t]];
        }
    }
    free(logits);
    return loss;
}
