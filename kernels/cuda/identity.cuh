/*
 * The identity of a GPU's numerics: GPUs with equal texts give equal bits, and the leader lets only
 * these share a job (elastic/leader/leader_compatibility.c).
 *
 * Everything stands in it that decides about bits and may differ between two nodes: the kind of
 * device; its multiprocessors, for a part of a GPU has the name of the whole one, and cuBLASLt
 * chooses by their number; the versions of the libraries, of the driver, and of NVRTC, which
 * compiles cuDNN's kernels; our own kernels, by a number that is raised with every change of a
 * result and by a digest of their sources, which notices where that was forgotten. The choices that
 * follow from all that are compared once more when a generation begins.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/**
 * cuda_identity() - write the identity of the first GPU, which need not be free
 * @size: below 128 bytes are written
 *
 * Return: 0; -ENODEV: no GPU; -ENOTSUP: one that the kernels are not for
 */
int cuda_identity(char *ret_text, size_t size, struct error *error);
