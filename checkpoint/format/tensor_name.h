/* Names of the model's tensors in a safetensors file. */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"

/** tensor_name_in_file() - return a parameter's own name, as Hugging Face uses it, or
 * "<name>.first_moment" and so on */
void tensor_name_in_file(const char *name, enum manifest_role role,
                         char ret_name[SAFETENSORS_NAME_SIZE]);
