/*
 * The identity of a GPU's numerics: GPUs with equal texts give equal bits, and the leader lets only
 * such GPUs share a job (elastic/leader/leader_compatibility.c).
 *
 * It contains everything that affects bits and may differ between two nodes: the kind of device;
 * its number of multiprocessors, because a part of a GPU has the name of the whole one and cuBLASLt
 * chooses by this number; the versions of the libraries, of the driver, and of NVRTC, which
 * compiles cuDNN's kernels; our own kernels, by a number that is raised with every change of a
 * result and by a digest of their sources, which detects a forgotten raise. The resulting choices
 * are compared again when a generation begins.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/**
 * cuda_identity() - write the identity of the first GPU, which need not be free
 * @size: below 128 bytes are written
 *
 * Return: 0; -ENODEV: no GPU; -ENOTSUP: the kernels do not support it
 */
int cuda_identity(char *ret_text, size_t size, struct error *error);
