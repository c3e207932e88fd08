/*
 * What a worker process takes of its machine's memory beside parameters, gradients and activations.
 *
 * On a CPU slot tensors lie in the memory of the machine, and so does all that a process has: its
 * programs and heaps, the staging of checkpoints, messages that came before they were asked for.
 * Each of these has a bound, and plans count the bounds, so that a plan is never less than what its
 * workers take. Where a small model does not come near a bound, the bound follows from its size. On
 * a device of its own memory only tensors are counted; firnd leaves out of a GPU's memory what a
 * process takes there (daemon/node/gpu_slots.c).
 *
 * Training data is not counted: files of up to 512 MiB are copied into memory, larger ones are
 * mapped (model/data/token_row.h), and how large they are a plan does not know.
 */
#pragma once

#include <stddef.h>

#include "elastic/job/job_spec.h"

/* Staging of checkpoints: the small one where the whole state fits into it
 * (worker/checkpoint/snapshot.c). */
#define PROCESS_STAGING_BYTES       ((size_t)64 << 20)
#define PROCESS_SMALL_STAGING_BYTES ((size_t)16 << 20)

/*
 * Messages that nobody has asked for yet, of all peers that are no neighbours in the pipeline: a
 * sixteenth of the parameters, whose sums and copies they are, within these. A peer that has more
 * to send offers it first (comm/mesh/inbox.h).
 */
#define PROCESS_LINK_BYTES_LEAST ((size_t)1 << 20)
#define PROCESS_LINK_BYTES_MOST  ((size_t)32 << 20)

/** process_link_bytes() - that room, for a job's model */
size_t process_link_bytes(const struct job_spec *spec);

/* And of those that are neighbours, in activations of one micro-batch: the stage before is ahead by
 * what 1F1B lets it be, the stage after by a gradient. One more of each covers what the link has
 * not given back yet. */
#define PROCESS_MESSAGES_FORWARD(stages_left) ((stages_left) + 2)
#define PROCESS_MESSAGES_BACKWARD             2

/* And for the small messages of such a neighbour. */
#define PROCESS_NEIGHBOUR_BYTES ((size_t)1 << 20)

/** process_messages() - of both neighbours of a stage from which on there are @stages_left */
static inline unsigned process_messages(unsigned stages_left)
{
    return PROCESS_MESSAGES_FORWARD(stages_left) + PROCESS_MESSAGES_BACKWARD;
}

/** process_bytes() - of a worker of @spec on a CPU slot of @threads, on every layout alike; 0
 * threads: not known, so one */
size_t process_bytes(const struct job_spec *spec, unsigned threads);

/**
 * process_room() - what tensors may take of a slot with @memory_bytes; 0: not limited, as before
 *
 * A slot that is declared smaller than a process is one for trying layouts of toy models: the first
 * PROCESS_FREE_BYTES are the tensors' alone. The room grows with the memory, without a step down.
 */
#define PROCESS_FREE_BYTES ((size_t)64 << 20)
size_t process_room(size_t memory_bytes, size_t process_bytes);
