#include "parity/oracle/backend.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emulator/emulator.h"
#include "kernels/backend.h"
#include "kernels/cpu/levels.h"
#include "kernels/cuda/backend.h"
#include "parity/oracle/adapter.h"

#define THREADS_MAX  3
#define FAILURES_MAX 40 /* of one test on a real GPU: more add nothing */

/* Rounding to bf16 is off by 2^-9 of a value at most, and errors of several values meet in a sum.
 */
#define BF16_TOLERANCE 3e-2
#define TF32_TOLERANCE 5e-3
/* A GPU's exponentials and its order of additions: a few units in the last place more than the CPU.
 */
#define GPU_FACTOR 8.0

static char current_name[64] = "this test";
static enum kernel_precision current_precision;
static bool on_gpu, emulated;
static char current_case[128];
static const struct backend *current; /* NULL: a device of the test's own */
static unsigned failures;             /* on a real GPU, of this call of backend_each() */

bool backend_gpu_alone(void)
{
    const char *device = getenv("PARITY_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

static void say_what_computes(const struct backend *backend)
{
    static char text[16384];

    if (!backend->kernel->describe)
        return;
    backend->kernel->describe(backend->device, text, sizeof(text));
    print_error("%s computes with:\n%s", current_name, text);
}

void backend_case(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(current_case, sizeof(current_case), format, arguments);
    va_end(arguments);
}

void backend_fail(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    print_error("WRONG: %s, %s%s%s\n", current_name, current_case, current_case[0] ? ", " : "",
                text);
    if (on_gpu && !emulated && ++failures < FAILURES_MAX)
        return;
    if (current)
        say_what_computes(current);
    fail_msg("%s is wrong", current_name);
}

static void check_one(backend_check check, const struct kernel *kernel, unsigned threads)
{
    struct kernel_options options = {.thread_count = threads};
    struct backend backend = {.kernel = kernel};
    struct error error = {0};
    unsigned failures_before = failures;

    if (kernel->open(&options, &backend.device, &error) < 0)
        fail_msg("%s: %s", current_name, error.text);
    backend.kernel = on_gpu ? adapter_around(kernel, backend.device) : kernel;
    current_case[0] = '\0';
    current = &backend;
    check(&backend);
    if (failures > failures_before)
        say_what_computes(&backend);
    current = NULL;
    kernel->close(backend.device);
}

static void check_gpu(backend_check check, const char *where, const struct kernel *kernel,
                      enum kernel_precision precision)
{
    static const char *const names[] = {"f32", "tf32", "bf16"};

    snprintf(current_name, sizeof(current_name), "%s %s", where, names[precision]);
    current_precision = precision;
    on_gpu = true;
    check_one(check, kernel, 1);
    on_gpu = false;
    current_precision = KERNEL_PRECISION_F32;
}

const struct kernel *backend_gpu(enum kernel_precision precision)
{
    static bool opened; /* one message about the GPU is enough */
    const struct kernel_options options = {.index = 0};
    struct kernel_device *device = NULL;
    const struct kernel *kernel;
    struct error error = {0};
    int status = kernel_backend(KERNEL_BACKEND_CUDA, precision, &kernel, &error);

    if (status == 0 && !opened)
        status = kernel->open(&options, &device, &error);
    if (!backend_gpu_alone() && (status == -ENOENT || status == -ENODEV || status == -ELIBBAD)) {
        print_message("skipped on a GPU: %s\n", error.text);
        return NULL;
    }
    if (status < 0)
        fail_msg("%s", error.text);
    if (device)
        kernel->close(device);
    opened = true;
    return kernel;
}

static void check_device(backend_check check)
{
    static const enum kernel_precision precisions[] = {KERNEL_PRECISION_F32, KERNEL_PRECISION_TF32,
                                                       KERNEL_PRECISION_BF16};

    for (size_t i = 0; i < ARRAY_COUNT(precisions); i++) {
        const struct kernel *kernel = backend_gpu(precisions[i]);
        if (!kernel)
            return;
        check_gpu(check, "GPU", kernel, precisions[i]);
    }
}

static void check_emulator(backend_check check)
{
    emulated = true;
    check_gpu(check, "emulator", firn_cuda_backend()->f32, KERNEL_PRECISION_F32);
    check_gpu(check, "emulator", firn_cuda_backend()->bf16, KERNEL_PRECISION_BF16);
    emulated = false;
}

static void check_cpu(backend_check check)
{
    for (int level = 0; level < CPU_LEVELS; level++) {
        const struct kernel *kernel = kernel_cpu_level((enum cpu_level)level);
        for (unsigned threads = 1; kernel && threads <= THREADS_MAX; threads++) {
            snprintf(current_name, sizeof(current_name), "%s level %d, %u threads", kernel->name,
                     level, threads);
            check_one(check, kernel, threads);
        }
    }
}

void backend_each_product(backend_check check)
{
    backend_each(check);
    if (backend_gpu_alone() || EMULATOR_JUMPS_ARE_SLOW)
        return;
    emulated = true;
    check_gpu(check, "emulator", firn_cuda_backend()->tf32, KERNEL_PRECISION_TF32);
    emulated = false;
}

void backend_each(backend_check check)
{
    on_gpu = emulated = false; /* as a failure may have left them */
    current_precision = KERNEL_PRECISION_F32;
    current = NULL;
    failures = 0;
    if (!backend_gpu_alone()) {
        check_cpu(check);
        if (!EMULATOR_JUMPS_ARE_SLOW)
            check_emulator(check);
    }
    check_device(check);
    if (failures > 0)
        fail_msg("%u results are wrong on a GPU", failures);
}

const char *backend_name(void)
{
    return current_name;
}

bool backend_emulated(void)
{
    return emulated;
}

float backend_round(float x)
{
    uint32_t bits;

    if (current_precision != KERNEL_PRECISION_BF16 || isnan(x))
        return x;
    memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof(bits));
    return x;
}

double backend_tolerance(double tolerance)
{
    if (!on_gpu)
        return tolerance;
    if (current_precision == KERNEL_PRECISION_BF16)
        return MAX(tolerance, BF16_TOLERANCE);
    if (current_precision == KERNEL_PRECISION_TF32)
        return MAX(tolerance, TF32_TOLERANCE);
    return tolerance * GPU_FACTOR;
}
