/* What a tensor of the model is called inside a safetensors file. */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/safetensors.h"

/** tensor_name_in_file() - a parameter's own name, which Hugging Face knows; "<name>.first_moment"
 * and so on */
void tensor_name_in_file(const char *name, enum manifest_role role,
                         char ret_name[SAFETENSORS_NAME_SIZE]);
