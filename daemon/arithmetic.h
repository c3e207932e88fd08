/*
 * What this node's slots compute with, as a text that is equal on two nodes where their results
 * are, to the bit: leaders keep the nodes of a job alike by it (elastic/leader_arithmetic.c).
 */
#pragma once

#include "base/clock.h"
#include "daemon/daemon.h"

#define ARITHMETIC_SIZE      96 /* of a worker's word; a GPU's may have 44 letters of its name */
#define ARITHMETIC_ANSWER_NS (5 * NS_PER_SECOND)

/** arithmetic_ask() - what @program (firn-worker) answers to @question ("identity", "rates") about
 * @device ("cpu", "cuda"), one line in its own words; "": it does not drive one, does not answer
 * within @patience_ns, or says more than there is room for */
void arithmetic_ask(const char *program, const char *question, const char *device,
                    uint64_t patience_ns, char *ret_line, size_t size);

/**
 * arithmetic_describe() - fill @self->arithmetic, once its slots are known
 * @device: "cpu" or "cuda"
 *
 * firn-worker is asked, because it has the kernels; for CPU slots the threads of a slot are added.
 * What cannot be found out stays empty, with a warning.
 */
void arithmetic_describe(const struct config *config, const char *device, struct node_record *self);
