/*
 * A worker listens from its start, and accepts while it opens a mesh. In between, while it opens
 * its device, reads its state, or waits for the next plan for minutes, nobody accepts: connections
 * of peers that have given up, and of strangers, fill the kernel's queue. Then the kernel answers
 * nothing, which looks like a cut cable to every peer (TIMEOUTS_UNREACHED). So a thread closes the
 * oldest of a long queue: that is an answer, and a peer comes again.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct mesh_doorman;

/** mesh_doorman_new() - keep the queue of @listener short, whose descriptor is borrowed. -ENOMEM,
 * or errno of making a thread */
int mesh_doorman_new(int listener, struct mesh_doorman **ret_doorman) CHECK_RESULT;
/** mesh_doorman_free() - end the thread; NULL allowed */
void mesh_doorman_free(struct mesh_doorman *doorman);

/** mesh_doorman_rest() - rest while a mesh opens, which accepts all */
void mesh_doorman_rest(struct mesh_doorman *doorman, bool rests);
