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
 *
 * CPU slots: firn-worker is asked (it links the kernels), and the threads of a slot are added. GPU
 * slots: the kind of GPU and the kernels. What cannot be found out stays empty, with a warning.
 */
void arithmetic_describe(const struct config *config, const char *gpu_name,
                         struct node_record *self);
