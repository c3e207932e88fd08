#include "bench/lib/backend.h"

#include <string.h>

#include "bench/lib/measure.h"
#include "kernels/backend.h"

static enum kernel_precision precision_of(const char *name)
{
    static const struct {
        const char *name;
        enum kernel_precision precision;
    } known[] = {{"bf16", KERNEL_PRECISION_BF16},
                 {"tf32", KERNEL_PRECISION_TF32},
                 {"f32", KERNEL_PRECISION_F32}};

    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        if (!strcmp(name, known[i].name))
            return known[i].precision;
    measure_die("--precision: \"%s\" is none of bf16, tf32, f32", name);
}

const struct kernel *backend_chosen(int argc, char **argv, const char *otherwise)
{
    const char *name = measure_option(argc, argv, "--backend", otherwise);
    bool cpu = !strcmp(name, "cpu");
    const char *precision = measure_option(argc, argv, "--precision", cpu ? "f32" : "bf16");
    const struct kernel *kernel;
    struct error error = {0};

    if (!cpu && strcmp(name, "cuda") != 0)
        measure_die("--backend: \"%s\" is neither cuda nor cpu", name);
    if (kernel_backend(cpu ? KERNEL_BACKEND_CPU : KERNEL_BACKEND_CUDA, precision_of(precision),
                       &kernel, &error))
        measure_die("%s", error.text);
    return kernel;
}
