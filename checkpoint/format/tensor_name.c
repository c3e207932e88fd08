#include "checkpoint/format/tensor_name.h"

#include <stdio.h>

void tensor_name_in_file(const char *name, enum manifest_role role,
                         char ret_name[SAFETENSORS_NAME_SIZE])
{
    if (role == MANIFEST_PARAMETER)
        snprintf(ret_name, SAFETENSORS_NAME_SIZE, "%s", name);
    else
        snprintf(ret_name, SAFETENSORS_NAME_SIZE, "%s.%s", name, manifest_role_name(role));
}
