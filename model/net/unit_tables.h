/* Build the tables of the families' tensors (unit_gpt2.c, unit_llama.c). */
#pragma once

#include "model/net/unit.h"

/** unit_add_tensor() - append a tensor; @columns 0 makes a vector of @rows */
struct unit_tensor *unit_add_tensor(struct unit_layout *layout, enum unit_part part,
                                    const char *prefix, const char *name, size_t rows,
                                    size_t columns);

/* Add the tensors of a family. Kind and layer of @layout are set. */
void unit_lay_out_gpt2(const struct model_spec *spec, struct unit_layout *layout);
void unit_lay_out_llama(const struct model_spec *spec, struct unit_layout *layout);
