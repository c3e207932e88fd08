/*
 * Choose OpenBLAS's kernels.
 *
 * OpenBLAS detects processors by their model numbers. A processor that is newer than the library is
 * treated as the oldest one of its vendor: 0.3.21 computes on some processors with AVX-512 as on a
 * Pentium 4 ("Prescott"), at a third to a fifth of the speed. So the processor's own feature flags
 * are read here, and firn-worker restarts itself with OPENBLAS_CORETYPE if OpenBLAS chose a worse
 * core (worker/main.c). OpenBLAS reads that variable when it is loaded.
 *
 * The core is part of a slot's identity (identity.h), because another core rounds differently. The
 * choice follows from library and processor, so equal nodes choose equally. If OPENBLAS_CORETYPE is
 * set, even to an empty text, the operator has chosen, and nothing is changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OPENBLAS_CORE_VARIABLE    "OPENBLAS_CORETYPE"
#define OPENBLAS_CORE_REMARK_SIZE 400

/** openblas_core_wanted() - return the core to request if OpenBLAS has chosen @core and the
 * processor has these instructions; NULL: @core is right, or no better core is known */
const char *openblas_core_wanted(const char *core, bool avx2, bool avx512);

/** openblas_core_better() - return the same for this library and processor; NULL also if the
 * environment chooses, or the library has kernels for only one core */
const char *openblas_core_better(void);

/** openblas_core_remark() - return whether a better core than the current one is known, and write
 * the reason and the remedy; @size: OPENBLAS_CORE_REMARK_SIZE */
bool openblas_core_remark(char *ret_text, size_t size);
