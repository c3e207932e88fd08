/* GPT-2's tensors, with the names and shapes of Hugging Face's GPT2LMHeadModel. */
#include <stdio.h>

#include "model/net/unit_tables.h"

static void lay_out_embedding(const struct model_spec *spec, struct unit_layout *layout)
{
    unit_add_tensor(layout, UNIT_TOKENS, "transformer.", "wte.weight", spec->vocab, spec->width);
    unit_add_tensor(layout, UNIT_POSITIONS, "transformer.", "wpe.weight", spec->context,
                    spec->width);
}

static void lay_out_attention(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "transformer.h.%u.", layout->layer);

    unit_add_tensor(layout, UNIT_NORM_WEIGHT, prefix, "ln_1.weight", width, 0);
    unit_add_tensor(layout, UNIT_NORM_BIAS, prefix, "ln_1.bias", width, 0);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "attn.c_attn.weight", width, 3 * width);
    unit_add_tensor(layout, UNIT_IN_BIAS, prefix, "attn.c_attn.bias", 3 * width, 0);
    unit_add_tensor(layout, UNIT_OUT_WEIGHT, prefix, "attn.c_proj.weight", width, width);
    unit_add_tensor(layout, UNIT_OUT_BIAS, prefix, "attn.c_proj.bias", width, 0);
}

static void lay_out_mlp(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "transformer.h.%u.", layout->layer);

    unit_add_tensor(layout, UNIT_NORM_WEIGHT, prefix, "ln_2.weight", width, 0);
    unit_add_tensor(layout, UNIT_NORM_BIAS, prefix, "ln_2.bias", width, 0);
    unit_add_tensor(layout, UNIT_IN_WEIGHT, prefix, "mlp.c_fc.weight", width, 4 * width);
    unit_add_tensor(layout, UNIT_IN_BIAS, prefix, "mlp.c_fc.bias", 4 * width, 0);
    unit_add_tensor(layout, UNIT_OUT_WEIGHT, prefix, "mlp.c_proj.weight", 4 * width, width);
    unit_add_tensor(layout, UNIT_OUT_BIAS, prefix, "mlp.c_proj.bias", width, 0);
}

static void lay_out_head(const struct model_spec *spec, struct unit_layout *layout)
{
    unit_add_tensor(layout, UNIT_NORM_WEIGHT, "transformer.", "ln_f.weight", spec->width, 0);
    unit_add_tensor(layout, UNIT_NORM_BIAS, "transformer.", "ln_f.bias", spec->width, 0);
    unit_add_tensor(layout, UNIT_TABLE, "", "lm_head.weight", spec->vocab, spec->width)->mirror =
        spec->tied;
}

void unit_lay_out_gpt2(const struct model_spec *spec, struct unit_layout *layout)
{
    switch (layout->kind) {
    case UNIT_EMBEDDING:
        lay_out_embedding(spec, layout);
        break;
    case UNIT_ATTENTION:
        lay_out_attention(spec, layout);
        break;
    case UNIT_MLP:
        lay_out_mlp(spec, layout);
        break;
    case UNIT_HEAD:
        lay_out_head(spec, layout);
        break;
    }
}
