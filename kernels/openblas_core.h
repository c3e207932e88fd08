/*
 * Which of its kernels OpenBLAS computes with.
 *
 * OpenBLAS knows processors by their model numbers. One that is newer than the library is taken for
 * the oldest that has its letters: 0.3.21 computes on some processors with AVX-512 as on a Pentium
 * 4
 * ("Prescott"), at a third to a fifth of the speed. What the processor can do is asked of itself
 * here, and firn-worker begins anew with OPENBLAS_CORETYPE where OpenBLAS chose worse
 * (worker/main.c): it reads that when it is loaded.
 *
 * The core is part of what a slot computes with (identity.h), because another one rounds otherwise.
 * What is chosen follows from library and processor, so nodes that are alike choose alike. Whoever
 * sets OPENBLAS_CORETYPE, even to nothing, has chosen, and nothing is changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define OPENBLAS_CORE_VARIABLE    "OPENBLAS_CORETYPE"
#define OPENBLAS_CORE_REMARK_SIZE 400

/** openblas_core_wanted() - the core that should be asked for where OpenBLAS has chosen @core and
 * the processor has these instructions; NULL: @core is right, or nothing better is known */
const char *openblas_core_wanted(const char *core, bool avx2, bool avx512);

/** openblas_core_better() - the same of the library and processor at hand; NULL too where the
 * environment chooses, and where the library has the kernels of one core alone */
const char *openblas_core_better(void);

/** openblas_core_remark() - whether a better core than the one that computes is known, and then why
 * that is so and what to do; @size: OPENBLAS_CORE_REMARK_SIZE */
bool openblas_core_remark(char *ret_text, size_t size);
