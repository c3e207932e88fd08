/*
 * One span of a worker's time, as stored in the worker's ring (elastic/messages/trace_ring.h).
 *
 * A span is one cache line with a checksum over its content and its number. If a worker dies or a
 * reader reads while a span is being stored, the checksum fails, and the span is skipped. Integers
 * are those of the machine; the ring names its byte order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Stored as numbers: append only. Readers keep spans of kinds that they do not know. */
enum trace_kind {
    TRACE_STEP = 1,         /* a step, from its beginning until it is applied; see `broken` */
    TRACE_DATA,             /* the samples of a micro-batch are read */
    TRACE_FORWARD,          /* one micro-batch through the stage */
    TRACE_BACKWARD,         /* the same, with the beginning of reductions that are ready */
    TRACE_VALIDATION,       /* the forward of a validation micro-batch */
    TRACE_LOSS,             /* the loss of a micro-batch is awaited and read */
    TRACE_WAIT_ACTIVATIONS, /* the input from the previous stage is awaited */
    TRACE_WAIT_GRADIENTS,   /* the gradient from the next stage is awaited */
    TRACE_SEND,             /* a result is handed to the link */
    TRACE_WAIT_SENT,        /* the last message of a buffer is awaited until it has left */
    TRACE_REDUCE,           /* the sums over replicas are finished */
    TRACE_NORM,             /* gradient norm and state digests */
    TRACE_COMMIT,           /* all ranks agree that the step counts */
    TRACE_OPTIMIZER,
    TRACE_METRICS,          /* the step's line, and its report */
    TRACE_SNAPSHOT,         /* the step loop works for a checkpoint, or waits for its copies */
    TRACE_VOTE,             /* the ranks vote on a checkpoint, between two micro-batches */
    TRACE_WRITE,            /* this rank's share is written, while steps continue */
    TRACE_FINAL_CHECKPOINT, /* the checkpoint at the end of a stay */
    TRACE_PAUSE,            /* from the last step of a generation to the first of the next */
    TRACE_DEVICE,           /* the device is opened */
    TRACE_OPEN_DATA,        /* the training data is opened, and read if it is not known */
    TRACE_READ_STATE,
    TRACE_LINKS,     /* the links of a generation are opened */
    TRACE_HANDOVER,  /* state is received from other workers */
    TRACE_BUILD,     /* buffers and links of a generation's engine are made */
    TRACE_FROZEN,    /* frozen units of a micro-batch: their outputs are loaded, or computed */
    TRACE_WEIGHTS,   /* the deferred part of a micro-batch's backward */
    TRACE_WAIT_HEAD, /* the sum of a lane's head is awaited from the replica that computes it */
};

struct trace_span {
    uint64_t number;   /* of the ring's spans, from 1 on; 0: never written */
    uint64_t begin_ns; /* CLOCK_MONOTONIC of the node */
    uint64_t duration_ns;
    uint64_t step;           /* the step of the span, or the next one; 0: before any */
    uint64_t generation;     /* 0: before the first */
    uint32_t micro_batch;    /* of the lane */
    uint16_t lane;           /* TRACE_NO_LANE: of no micro-batch */
    uint16_t stage, replica; /* of this worker in the generation; TRACE_NO_STAGE: none */
    uint16_t kind;           /* enum trace_kind */
    uint8_t broken;          /* of a step: 1 if it did not commit here */
    uint8_t unused[7];       /* 0 */
    uint32_t crc32c;         /* of all before it */
};

#define TRACE_NO_LANE  UINT16_MAX
#define TRACE_NO_STAGE UINT16_MAX /* the worker only hands over state */

/** trace_span_seal() - set the checksum of @span, whose other members are final */
void trace_span_seal(struct trace_span *span);

/**
 * trace_span_decode() - copy a span from bytes that may be anything
 * @data: sizeof(struct trace_span) bytes, at any address
 *
 * Return: false: never written, torn, or damaged. Times of a decoded span do not overflow.
 */
bool trace_span_decode(const void *data, struct trace_span *ret_span);

/** trace_span_word() - name @kind for people; "other" for one of a newer firn */
const char *trace_span_word(unsigned kind);
