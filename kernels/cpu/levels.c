#include "kernels/cpu/levels.h"

extern const struct kernel cpu_portable_kernel;
#if defined(__x86_64__)
extern const struct kernel cpu_avx2_kernel, cpu_avx512_kernel;

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

const struct kernel *kernel_cpu_level(enum cpu_level level)
{
#if defined(__x86_64__)
    if (level == CPU_AVX512)
        return has_avx512() ? &cpu_avx512_kernel : NULL;
    if (level == CPU_AVX2)
        return has_avx2() ? &cpu_avx2_kernel : NULL;
#endif
    return level == CPU_PORTABLE ? &cpu_portable_kernel : NULL;
}

const struct kernel *kernel_cpu(void)
{
    for (int level = CPU_LEVELS - 1; level > CPU_PORTABLE; level--) {
        const struct kernel *kernel = kernel_cpu_level((enum cpu_level)level);
        if (kernel)
            return kernel;
    }
    return &cpu_portable_kernel;
}
