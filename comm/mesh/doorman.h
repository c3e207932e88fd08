/*
 * Keep the listener's queue short while no mesh accepts. A worker listens from its start, but
 * accepts only while it opens a mesh. While it opens its device, reads its state, or waits minutes
 * for the next plan, connections of strangers and of peers that have given up fill the kernel's
 * queue. Then the kernel answers nothing, which looks like a cut cable to every peer
 * (TIMEOUTS_UNREACHED). So a thread closes the oldest connections of a long queue: the peer gets an
 * answer and retries.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct mesh_doorman;

/** mesh_doorman_new() - start a thread that keeps the queue of @listener (borrowed) short. -ENOMEM,
 * or errno of making a thread */
int mesh_doorman_new(int listener, struct mesh_doorman **ret_doorman) CHECK_RESULT;
/** mesh_doorman_free() - end the thread; NULL allowed */
void mesh_doorman_free(struct mesh_doorman *doorman);

/** mesh_doorman_rest() - pause the thread while a mesh opens, because the mesh accepts all
 * connections */
void mesh_doorman_rest(struct mesh_doorman *doorman, bool rests);
