/* The digest of the frozen weights that a worker holds, each unit read once: frozen weights do not
 * change while the worker keeps its state. */
#pragma once

#include "worker/state/state.h"

struct frozen_weights;

struct frozen_weights *frozen_weights_new(void); /* NULL: no memory */
void frozen_weights_free(struct frozen_weights *weights);
/** frozen_weights_forget() - forget the digests: the state goes back to another step; NULL
 * allowed */
void frozen_weights_forget(struct frozen_weights *weights);

/** frozen_weights_digest() - return the digest of the parameters of units [0, @unit_count), which
 * are held. Waits for the compute queue; undefined after a device failure */
struct hash128 frozen_weights_digest(struct frozen_weights *weights, const struct state *state,
                                     unsigned unit_count);
