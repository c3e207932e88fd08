/*
 * Describe the numerics identity of this node's slots as a text. Nodes with equal texts compute
 * equal results, to the bit. Leaders put only such nodes into one job
 * (elastic/leader/leader_compatibility.c).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "daemon/node/gpu.h"
#include "membership/kv/records.h"

struct config;

#define NUMERICS_IDENTITY_SIZE                                                                     \
    96 /* of a worker's answer; a GPU's may have 44 letters of its name */
#define NUMERICS_IDENTITY_ANSWER_NS (5 * NS_PER_SECOND)

/** numerics_identity_ask() - return the answer of @program (firn-worker) to @question
 * ("identity", "rates") about @device ("cpu", "cuda", "cuda:" and a UUID), one line. The answer
 * is "" if the worker does not support the device, exceeds the buffer, or has used no processor
 * time for @patience_ns */
void numerics_identity_ask(const char *program, const char *question, const char *device,
                           uint64_t patience_ns, char *ret_line, size_t size);

/** numerics_identity_begin() - ask as numerics_identity_ask() does, without waiting for the
 * answer
 * @ret_output: a pipe for the answer, closed by the caller
 *
 * Return: 0, then numerics_identity_end() must follow; errno of the pipe or of the process */
int numerics_identity_begin(const char *program, const char *question, const char *device,
                            pid_t *ret_pid, int *ret_output) CHECK_RESULT;

/** numerics_identity_end() - end the process that numerics_identity_begin() started */
void numerics_identity_end(pid_t pid);

/**
 * numerics_identity_describe_cpu() - fill @self->numerics_identity, once the slots are known, from
 * the number of threads per slot and the answer of firn-worker, which has the kernels. If there is
 * no answer, log a warning and leave it empty.
 */
void numerics_identity_describe_cpu(const struct config *config, struct node_record *self);

/**
 * numerics_identity_describe_gpus() - find the numerics identity of each slot: ask firn-worker
 * about one GPU of each kind
 * @list: slot i is its i-th GPU
 *
 * A GPU about which firn-worker does not answer, or of a kind for which the record has no room, is
 * out of service with that reason while this firnd runs.
 */
void numerics_identity_describe_gpus(const struct config *config, const struct gpu_list *list,
                                     struct node_record *self);
