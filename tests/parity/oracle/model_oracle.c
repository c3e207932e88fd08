#include "parity/oracle/model_oracle.h"

#include <math.h>
#include <stdlib.h>

static void oracle_embed(const struct oracle *oracle, const int32_t *tokens, double *stream)
{
    bool llama = oracle->spec.family == MODEL_LLAMA;
    size_t width = oracle->spec.width;
    const double *table = oracle_tensor(oracle, 0, llama ? "embed_tokens.weight" : "wte.weight");
    const double *positions = llama ? NULL : oracle_tensor(oracle, 0, "wpe.weight");

    for (size_t t = 0; t < oracle->spec.context; t++)
        for (size_t i = 0; i < width; i++)
            stream[t * width + i] =
                table[(size_t)tokens[t] * width + i] + (positions ? positions[t * width + i] : 0.0);
}

void oracle_logits(const struct oracle *oracle, const int32_t *tokens, double *ret_logits)
{
    const struct model_spec *spec = &oracle->spec;
    size_t context = spec->context, width = spec->width;
    bool llama = spec->family == MODEL_LLAMA;
    unsigned head = model_unit_count(spec) - 1;
    const double *head_table = oracle_tensor(oracle, head, "lm_head.weight");
    double *stream = calloc(context * width, sizeof(double));
    double *norm = calloc(width, sizeof(double));

    oracle_embed(oracle, tokens, stream);
    for (unsigned layer = 0; layer < spec->layers; layer++) {
        if (llama)
            llama_attention(oracle, 1 + 2 * layer, stream);
        else
            gpt2_attention(oracle, 1 + 2 * layer, stream);
        if (llama)
            llama_mlp(oracle, 2 + 2 * layer, stream);
        else
            gpt2_mlp(oracle, 2 + 2 * layer, stream);
    }
    for (size_t t = 0; t < context; t++) {
        if (llama)
            llama_norm(oracle, norm, stream + t * width,
                       oracle_tensor(oracle, head, "model.norm.weight"));
        else
            gpt2_norm(norm, stream + t * width, oracle_tensor(oracle, head, "ln_f.weight"),
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

double oracle_loss_sum(const struct oracle *oracle, const int32_t *tokens, const int32_t *targets,
                       size_t batch)
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
