/*
 * The recorder of one worker: keeps the spans of its last steps in a ring
 * (elastic/messages/trace_ring.h), in a file of the job's folder on this node.
 *
 * The file is mapped shared and its blocks are allocated at the start, so recording stores one
 * cache line, without a system call or an allocation. The first store into a page that the kernel
 * has written back is a page fault, as a write() would be. Stored spans survive the SIGKILL of the
 * worker, since they are in the kernel's cache; a crash of the machine may lose the last half
 * minute. Training has priority: a worker whose ring cannot be created continues without one.
 *
 * The rings of earlier workers of the slot are renamed, up to TRACE_RINGS_MAX in all. A ring whose
 * worker has applied no step is replaced, not kept: workers that repeatedly die at their start do
 * not push out the ring that a person looks for.
 *
 * All functions belong to the thread that trains, and take NULL for a worker without a ring.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/trace_span.h"

struct recorder;

struct recorder_options {
    const char *folder; /* of the job on this node; exists */
    unsigned slot;
};

/** recorder_open() - create the ring. 0; -ENOSPC, -ENOTSUP (a copy-on-write file system, on which a
 * full disk would kill the worker), others: there is no ring, and @error names the file */
int recorder_open(const struct recorder_options *options, struct recorder **ret_recorder,
                  struct error *error) CHECK_RESULT;
void recorder_close(struct recorder *recorder);

/** recorder_enter() - set the generation, stage and replica of the spans from now on */
void recorder_enter(struct recorder *recorder, uint64_t generation, unsigned stage,
                    unsigned replica);
/** recorder_applied() - note @step, the newest that this worker has applied */
void recorder_applied(struct recorder *recorder, uint64_t step);

/** recorder_add() - record a span from @begin_ns (monotonic) until now. @span: `kind`, `step`,
 * `lane`, `micro_batch` and `broken`; the recorder sets the rest. A span below a microsecond is
 * left out
 */
void recorder_add(struct recorder *recorder, uint64_t begin_ns, struct trace_span span);

/** recorder_add_kind() - recorder_add() of a span that belongs to no micro-batch */
void recorder_add_kind(struct recorder *recorder, uint64_t begin_ns, enum trace_kind kind,
                       uint64_t step);
