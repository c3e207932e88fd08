/*
 * What this node's slots compute with, as a text that is equal on two nodes where their results
 * are, to the bit: leaders keep the nodes of a job alike by it (elastic/leader_arithmetic.c).
 */
#pragma once

#include "daemon/daemon.h"

#define ARITHMETIC_SIZE 64

/** arithmetic_ask() - what @program (firn-worker) has for @device ("cpu", "cuda"), in its own
 * words;
 * "": it does not drive one, or does not answer */
void arithmetic_ask(const char *program, const char *device, char *ret_line, size_t size);

/**
 * arithmetic_describe() - fill @self->arithmetic, once its slots are known
 * @device: "cpu" or "cuda"
 *
 * firn-worker is asked, because it has the kernels; for CPU slots the threads of a slot are added.
 * What cannot be found out stays empty, with a warning.
 */
void arithmetic_describe(const struct config *config, const char *device, struct node_record *self);
