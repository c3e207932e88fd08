/*
 * Memory that a worker process takes in addition to parameters, gradients and activations.
 *
 * On a CPU slot the host memory holds tensors and everything else of the process: program and
 * heaps, checkpoint staging, the trace, received messages that the worker has not read yet. Each of
 * these has a bound. Plans count the bounds, so that a worker never takes more than its plan says.
 * The bounds of a small model follow from its size. On a GPU slot only tensors are counted; firnd
 * subtracts the memory of the process from the GPU's memory (daemon/node/gpu_slots.c).
 *
 * Training data is not counted: files of up to 512 MiB are copied into memory and larger ones are
 * mapped (model/data/token_row.h). The planner does not know the file sizes.
 */
#pragma once

#include <stddef.h>

#include "elastic/job/job_model.h"

/* Staging of checkpoints: the small size is used when the whole state fits into it
 * (worker/checkpoint/snapshot.c). */
#define PROCESS_STAGING_BYTES       ((size_t)64 << 20)
#define PROCESS_SMALL_STAGING_BYTES ((size_t)16 << 20)

/* The ring of a worker's trace (worker/trace/recorder.h). */
#define PROCESS_TRACE_BYTES (((size_t)2 << 20) + 4096)

/*
 * Bounds of the room for unread messages of all peers that are not pipeline neighbours. The room is
 * a sixteenth of the parameters, because the messages are sums and copies of parameters. A peer
 * with more to send offers it first (comm/mesh/inbox.h).
 */
#define PROCESS_LINK_BYTES_LEAST ((size_t)1 << 20)
#define PROCESS_LINK_BYTES_MOST  ((size_t)32 << 20)

/** process_link_bytes() - return the room for unread messages of such peers */
size_t process_link_bytes(const struct job_model *model);

/* Unread messages of pipeline neighbours, in activations of one micro-batch. 1F1B bounds the lead
 * of the previous stage; the next stage leads by one gradient. One more of each covers the buffer
 * that the link has not returned yet. */
#define PROCESS_MESSAGES_FORWARD(stages_left) ((stages_left) + 2)
#define PROCESS_MESSAGES_BACKWARD             2

/* Room for the small messages of one pipeline neighbour. */
#define PROCESS_NEIGHBOUR_BYTES ((size_t)1 << 20)

/**
 * process_messages() - return the unread messages of both neighbours of a stage, with @stages_left
 * stages from it on
 */
static inline unsigned process_messages(unsigned stages_left)
{
    return PROCESS_MESSAGES_FORWARD(stages_left) + PROCESS_MESSAGES_BACKWARD;
}

/**
 * process_bytes() - return the process memory of a worker of @model on a CPU slot, the same on
 * every layout
 * @threads: of the slot; 0: unknown, counted as 1
 */
size_t process_bytes(const struct job_model *model, unsigned threads);

/**
 * process_room() - return the bytes of a slot with @memory_bytes that are left for tensors; 0: not
 * limited (also as @memory_bytes)
 *
 * A slot that is declared smaller than a process serves to try layouts of toy models. Its first
 * PROCESS_FREE_BYTES are for tensors alone. The result never shrinks when the memory grows.
 */
#define PROCESS_FREE_BYTES ((size_t)64 << 20)
size_t process_room(size_t memory_bytes, size_t process_bytes);
