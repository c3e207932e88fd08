/* The state digest: used by sealing (computes it) and by decoding (checks it). */
#pragma once

#include "checkpoint/format/manifest.h"

/** manifest_digest() - digest @manifest's tensors in their present order and its freeze state; 0
 * or -ENOMEM */
int manifest_digest(const struct manifest *manifest, struct hash128 *ret_digest) CHECK_RESULT;
