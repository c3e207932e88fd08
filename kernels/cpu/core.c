#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/openblas_core.h"

/* The cores of OpenBLAS that do not use AVX2. A name that is not in this list, for example from a
 * later version, may be better than every core known here. */
static const char *const old_cores[] = {
    "Unknown", "Katmai",    "Coppermine", "Northwood", "Prescott",    "Banias",       "Atom",
    "Core2",   "Penryn",    "Dunnington", "Nehalem",   "Sandybridge", "Athlon",       "Opteron",
    "Nano",    "Barcelona", "Bobcat",     "Bulldozer", "Generic",     "Opteron_SSE3",
};

const char *openblas_core_wanted(const char *core, bool avx2, bool avx512)
{
    for (size_t i = 0; i < ARRAY_COUNT(old_cores); i++)
        if (!strcasecmp(core, old_cores[i]))
            return avx512 ? "SkylakeX" : avx2 ? "Haswell" : NULL;
    return NULL;
}

#ifdef __x86_64__
static const char *wanted_here(void)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");

    return openblas_core_wanted(openblas_get_corename(), avx2, avx512);
}
#else
static const char *wanted_here(void)
{
    return NULL;
}
#endif

const char *openblas_core_better(void)
{
    return strstr(openblas_get_config(), "DYNAMIC_ARCH") && !getenv(OPENBLAS_CORE_VARIABLE)
               ? wanted_here()
               : NULL;
}

bool openblas_core_remark(char *ret_text, size_t size)
{
    const char *asked = getenv(OPENBLAS_CORE_VARIABLE), *wanted = wanted_here();

    if (!wanted)
        return false;
    if (!strstr(openblas_get_config(), "DYNAMIC_ARCH"))
        snprintf(ret_text, size,
                 "this OpenBLAS is built for the core %s alone, where this processor could compute "
                 "as %s does, several times faster: install one with DYNAMIC_ARCH, on all nodes",
                 openblas_get_corename(), wanted);
    else
        snprintf(ret_text, size,
                 "OpenBLAS computes as on a core of the kind %s (%s=%s), where this processor "
                 "could compute as %s does, several times faster: unless jobs that began so are to "
                 "end so, take %s out of firnd's environment, on all nodes",
                 openblas_get_corename(), OPENBLAS_CORE_VARIABLE, asked ? asked : "", wanted,
                 OPENBLAS_CORE_VARIABLE);
    return true;
}
