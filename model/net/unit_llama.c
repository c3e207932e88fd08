/*
 * Llama's tensors, with the names and shapes of Hugging Face's LlamaForCausalLM, and the additional
 * tensors of its relatives (Qwen2ForCausalLM, Qwen3ForCausalLM). Hugging Face has three matrices
 * for queries, keys and values, and two for gate and up; here each group is one product. Their
 * columns are the width, a multiple of the padding, so there is no padding between them. Nor is
 * there any between biases, of which model_spec_check() requires the same.
 */
#include <stdio.h>

#include "model/net/unit_tables.h"

static void lay_out_attention(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width, mixed = (size_t)spec->heads * spec->head_width;
    size_t kv_width = (size_t)spec->kv_heads * spec->head_width;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "model.layers.%u.", layout->layer);

    unit_add_tensor(layout, UNIT_NORM_WEIGHT, prefix, "input_layernorm.weight", width, 0);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "self_attn.q_proj.weight", mixed, width);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "self_attn.k_proj.weight", kv_width, width);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "self_attn.v_proj.weight", kv_width, width);
    unit_add_tensor(layout, UNIT_OUT_WEIGHT, prefix, "self_attn.o_proj.weight", width, mixed);
    if (spec->qkv_bias) {
        unit_add_tensor(layout, UNIT_IN_BIAS, prefix, "self_attn.q_proj.bias", mixed, 0);
        unit_add_tensor(layout, UNIT_IN_BIAS, prefix, "self_attn.k_proj.bias", kv_width, 0);
        unit_add_tensor(layout, UNIT_IN_BIAS, prefix, "self_attn.v_proj.bias", kv_width, 0);
    }
    if (spec->qk_norm) {
        unit_add_tensor(layout, UNIT_Q_NORM, prefix, "self_attn.q_norm.weight", spec->head_width,
                        0);
        unit_add_tensor(layout, UNIT_K_NORM, prefix, "self_attn.k_norm.weight", spec->head_width,
                        0);
    }
}

static void lay_out_mlp(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width, hidden = spec->hidden;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "model.layers.%u.", layout->layer);

    unit_add_tensor(layout, UNIT_NORM_WEIGHT, prefix, "post_attention_layernorm.weight", width, 0);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "mlp.gate_proj.weight", hidden, width);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "mlp.up_proj.weight", hidden, width);
    unit_add_tensor(layout, UNIT_OUT_WEIGHT, prefix, "mlp.down_proj.weight", width, hidden);
}

void unit_lay_out_llama(const struct model_spec *spec, struct unit_layout *layout)
{
    assert(spec->width % UNIT_TENSOR_ALIGN == 0);
    switch (layout->kind) {
    case UNIT_EMBEDDING:
        unit_add_tensor(layout, UNIT_TOKENS, "model.", "embed_tokens.weight", spec->vocab,
                        spec->width);
        break;
    case UNIT_ATTENTION:
        lay_out_attention(spec, layout);
        break;
    case UNIT_MLP:
        lay_out_mlp(spec, layout);
        break;
    case UNIT_HEAD:
        unit_add_tensor(layout, UNIT_NORM_WEIGHT, "model.", "norm.weight", spec->width, 0);
        unit_add_tensor(layout, UNIT_TABLE, "", "lm_head.weight", spec->vocab, spec->width)
            ->mirror = spec->tied;
        break;
    }
}
