/* The state digest: shared by sealing (computes it) and decoding (checks it). */
#pragma once

#include "checkpoint/format/manifest.h"

/** manifest_digest() - of @manifest's tensors as they stand and its freeze state; 0 or -ENOMEM */
int manifest_digest(const struct manifest *manifest, struct hash128 *ret_digest) CHECK_RESULT;
