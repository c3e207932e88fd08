#include "parity/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernels/cpu/levels.h"

#define THREADS_MAX 3

static char current_name[64] = "none";

static void check_one(backend_check check, const struct kernel *kernel, int level, unsigned threads)
{
    struct kernel_options options = {.thread_count = threads};
    struct backend backend = {.kernel = kernel};
    struct error error = {0};

    snprintf(current_name, sizeof(current_name), "%s level %d, %u threads", kernel->name, level,
             threads);
    assert_int_equal(kernel->open(&options, &backend.device, &error), 0);
    check(&backend);
    kernel->close(backend.device);
}

void backend_each(backend_check check)
{
    for (int level = 0; level < CPU_LEVELS; level++) {
        const struct kernel *kernel = kernel_cpu_level((enum cpu_level)level);
        for (unsigned threads = 1; kernel && threads <= THREADS_MAX; threads++)
            check_one(check, kernel, level, threads);
    }
}

const char *backend_name(void)
{
    return current_name;
}
