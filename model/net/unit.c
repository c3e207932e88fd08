/*
 * The units of a model and the layout of their tensors. All code that moves, stores or updates
 * parameters iterates over these layouts; only the families' tables have the names of tensors.
 */
#include "model/net/unit.h"

#include <stdio.h>

#include "model/net/unit_tables.h"

unsigned model_unit_count(const struct model_spec *spec)
{
    return 2 * spec->layers + 2;
}

unsigned model_frozen_units(const struct model_spec *spec, unsigned frozen_layers)
{
    assert(frozen_layers <= spec->layers);
    return frozen_layers == 0 ? 0 : 1 + 2 * frozen_layers;
}

void model_unit_layout(const struct model_spec *spec, unsigned unit, struct unit_layout *ret_layout)
{
    assert(unit < model_unit_count(spec));
    *ret_layout = (struct unit_layout){0};

    if (unit == 0) {
        ret_layout->kind = UNIT_EMBEDDING;
    } else if (unit == model_unit_count(spec) - 1) {
        ret_layout->kind = UNIT_HEAD;
    } else {
        ret_layout->kind = unit % 2 == 1 ? UNIT_ATTENTION : UNIT_MLP;
        ret_layout->layer = (unit - 1) / 2;
    }
    if (spec->family == MODEL_LLAMA)
        unit_lay_out_llama(spec, ret_layout);
    else
        unit_lay_out_gpt2(spec, ret_layout);
}

const struct unit_tensor *model_unit_part(const struct unit_layout *layout, enum unit_part part)
{
    for (unsigned i = 0; i < layout->tensor_count; i++)
        if (layout->tensors[i].part == part)
            return &layout->tensors[i];
    return NULL;
}

size_t model_logits_stride(const struct model_spec *spec)
{
    return ((size_t)spec->vocab + MODEL_LOGITS_ALIGN - 1) / MODEL_LOGITS_ALIGN * MODEL_LOGITS_ALIGN;
}

struct unit_widths model_unit_widths(const struct model_spec *spec, enum unit_kind kind)
{
    size_t head_width = model_head_width(spec), kv_width = model_kv_heads(spec) * head_width;
    size_t hidden = spec->family == MODEL_LLAMA ? spec->hidden : 4 * (size_t)spec->width;

    if (kind == UNIT_ATTENTION)
        return (struct unit_widths){.wide = spec->heads * head_width + 2 * kv_width,
                                    .mixed = spec->heads * head_width};
    return (struct unit_widths){.wide = spec->family == MODEL_LLAMA ? 2 * hidden : hidden,
                                .mixed = hidden};
}
