/* JSON answers on standard output. */
#pragma once

#include <jansson.h>

#include "base/compiler.h"
#include "base/error.h"

/** output_json() - print and free @tree (NULL: memory was short); 0 or -ENOMEM */
int output_json(json_t *tree, struct error *error) CHECK_RESULT;
/** output_flush() - whether all that was printed has arrived; -EPIPE, -ENOSPC, ... */
int output_flush(struct error *error) CHECK_RESULT;
