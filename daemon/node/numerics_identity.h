/*
 * What this node's slots compute with, as a text that is equal on two nodes where their results
 * are, to the bit: leaders keep the nodes of a job alike by it
 * (elastic/leader/leader_compatibility.c).
 */
#pragma once

#include <sys/types.h>

#include "base/clock.h"
#include "daemon/core/daemon.h"
#include "daemon/node/gpu.h"

#define NUMERICS_IDENTITY_SIZE                                                                     \
    96 /* of a worker's word; a GPU's may have 44 letters of its name                              \
        */
#define NUMERICS_IDENTITY_ANSWER_NS (5 * NS_PER_SECOND)

/** numerics_identity_ask() - what @program (firn-worker) answers to @question ("identity", "rates")
 * about
 * @device ("cpu", "cuda", "cuda:" and a UUID), one line in its own words; "": it does not drive
 * one, does not answer within @patience_ns, or says more than there is room for */
void numerics_identity_ask(const char *program, const char *question, const char *device,
                           uint64_t patience_ns, char *ret_line, size_t size);

/** numerics_identity_begin() - ask as numerics_identity_ask() does, without waiting for the answer
 * @ret_output: a pipe that the answer comes from, the caller's to close
 *
 * Return: 0, then numerics_identity_end() must follow; errno of the pipe or of the process
 */
int numerics_identity_begin(const char *program, const char *question, const char *device,
                            pid_t *ret_pid, int *ret_output) CHECK_RESULT;

/** numerics_identity_end() - end the process that numerics_identity_begin() started */
void numerics_identity_end(pid_t pid);

/**
 * numerics_identity_describe_cpu() - fill @self->arithmetic, once its slots are known: what
 * firn-worker says, because it has the kernels, and the threads of a slot. What cannot be found out
 * stays empty, with a warning.
 */
void numerics_identity_describe_cpu(const struct config *config, struct node_record *self);

/**
 * numerics_identity_describe_gpus() - what each slot computes with: firn-worker is asked for one
 * GPU of each kind
 * @list: slot i is its i-th GPU
 *
 * A GPU for which it does not answer, or of a kind that the record has no more room for, is out of
 * service with that reason, as long as this firnd runs.
 */
void numerics_identity_describe_gpus(const struct config *config, const struct gpu_list *list,
                                     struct node_record *self);
