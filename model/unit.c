/*
 * The table of a GPT-2's tensors, unit by unit, under the names and in the shapes that Hugging
 * Face's GPT2LMHeadModel gives them. Everything that moves, stores or updates parameters walks
 * these layouts; nothing else knows a tensor's name.
 */
#include "model/unit.h"

#include <stdio.h>

unsigned model_unit_count(const struct model_spec *spec)
{
    return 2 * spec->layers + 2;
}

unsigned model_frozen_units(const struct model_spec *spec, unsigned frozen_layers)
{
    assert(frozen_layers <= spec->layers);
    return frozen_layers == 0 ? 0 : 1 + 2 * frozen_layers;
}

/* Appends a tensor behind those already there; @columns 0 makes a vector of @rows. */
static struct unit_tensor *add_tensor(struct unit_layout *layout, const char *prefix,
                                      const char *name, size_t rows, size_t columns)
{
    assert(layout->tensor_count < UNIT_TENSORS_MAX);
    struct unit_tensor *tensor = &layout->tensors[layout->tensor_count++];
    int length = snprintf(tensor->name, sizeof(tensor->name), "%s%s", prefix, name);
    assert(length > 0 && (size_t)length < sizeof(tensor->name));

    tensor->rank = columns == 0 ? 1 : 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->count = columns == 0 ? rows : rows * columns;
    tensor->decay = tensor->rank == 2;
    tensor->offset = layout->count;
    layout->count +=
        (tensor->count + UNIT_TENSOR_ALIGN - 1) / UNIT_TENSOR_ALIGN * UNIT_TENSOR_ALIGN;
    return tensor;
}

static void lay_out_embedding(const struct model_spec *spec, struct unit_layout *layout)
{
    add_tensor(layout, "transformer.", "wte.weight", spec->vocab, spec->width);
    add_tensor(layout, "transformer.", "wpe.weight", spec->context, spec->width);
}

static void lay_out_attention(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "transformer.h.%u.", layout->layer);

    add_tensor(layout, prefix, "ln_1.weight", width, 0);
    add_tensor(layout, prefix, "ln_1.bias", width, 0);
    add_tensor(layout, prefix, "attn.c_attn.weight", width, 3 * width);
    add_tensor(layout, prefix, "attn.c_attn.bias", 3 * width, 0);
    add_tensor(layout, prefix, "attn.c_proj.weight", width, width);
    add_tensor(layout, prefix, "attn.c_proj.bias", width, 0);
}

static void lay_out_mlp(const struct model_spec *spec, struct unit_layout *layout)
{
    size_t width = spec->width;
    char prefix[TENSOR_NAME_SIZE];
    snprintf(prefix, sizeof(prefix), "transformer.h.%u.", layout->layer);

    add_tensor(layout, prefix, "ln_2.weight", width, 0);
    add_tensor(layout, prefix, "ln_2.bias", width, 0);
    add_tensor(layout, prefix, "mlp.c_fc.weight", width, 4 * width);
    add_tensor(layout, prefix, "mlp.c_fc.bias", 4 * width, 0);
    add_tensor(layout, prefix, "mlp.c_proj.weight", 4 * width, width);
    add_tensor(layout, prefix, "mlp.c_proj.bias", width, 0);
}

static void lay_out_head(const struct model_spec *spec, struct unit_layout *layout)
{
    add_tensor(layout, "transformer.", "ln_f.weight", spec->width, 0);
    add_tensor(layout, "transformer.", "ln_f.bias", spec->width, 0);
    add_tensor(layout, "", "lm_head.weight", spec->vocab, spec->width)->mirror = spec->tied;
}

void model_unit_layout(const struct model_spec *spec, unsigned unit, struct unit_layout *ret_layout)
{
    assert(unit < model_unit_count(spec));
    *ret_layout = (struct unit_layout){0};

    if (unit == 0) {
        ret_layout->kind = UNIT_EMBEDDING;
        lay_out_embedding(spec, ret_layout);
    } else if (unit == model_unit_count(spec) - 1) {
        ret_layout->kind = UNIT_HEAD;
        lay_out_head(spec, ret_layout);
    } else if (unit % 2 == 1) {
        ret_layout->kind = UNIT_ATTENTION;
        ret_layout->layer = (unit - 1) / 2;
        lay_out_attention(spec, ret_layout);
    } else {
        ret_layout->kind = UNIT_MLP;
        ret_layout->layer = (unit - 1) / 2;
        lay_out_mlp(spec, ret_layout);
    }
}
