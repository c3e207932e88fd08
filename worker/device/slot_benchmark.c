#include "worker/device/slot_benchmark.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/philox.h"
#include "worker/device/nccl_use.h"

#define ROUNDS_MIN     2
#define RANDOM_COUNT   ((size_t)1 << 18) /* random numbers drawn; a matrix repeats them */
#define FREE_SHARE_MIN 0.9

/* 256 MiB of bf16, twice that of f32. */
static const struct slot_benchmark_size whole = {.rows = 8192,
                                                 .in = 4096,
                                                 .out = 8192,
                                                 .copy_bytes = 256 << 20,
                                                 .host_bytes = 128 << 20,
                                                 .measure_ns = 50 * NS_PER_MS};
static const struct slot_benchmark_size of_cpu = {
    .rows = 256, .in = 1024, .out = 1024, .copy_bytes = 64 << 20, .measure_ns = 200 * NS_PER_MS};

#define BUFFERS 3

/* A device with its buffers for the measurement. */
struct bench {
    const struct kernel *kernel;
    struct kernel_device *device;
    const struct slot_benchmark_size *size;
    double turns; /* threads per core: above 1 if a slot has more threads than cores */
    void *buffers[BUFFERS], *host;
};

static void bench_done(struct bench *bench)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        if (bench->buffers[i])
            bench->kernel->release(bench->device, bench->buffers[i]);
    if (bench->host)
        bench->kernel->host_release(bench->device, bench->host);
    if (bench->device)
        bench->kernel->close(bench->device);
}

static double turns(unsigned thread_count)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed))
        return 1; /* the machine has more cores than the set has room for */
    return MAX((double)thread_count / (double)CPU_COUNT(&allowed), 1.0);
}

static int bench_open(struct bench *bench, const struct kernel_options *options,
                      struct error *error)
{
    size_t free_bytes = 1, total_bytes = 1;
    int status = bench->kernel->open(options, &bench->device, error);

    if (status)
        return status;
    bench->turns = turns(options->thread_count);
    bench->kernel->memory(bench->device, &free_bytes, &total_bytes);
    if ((double)free_bytes < FREE_SHARE_MIN * (double)total_bytes)
        return error_set(error, -EBUSY,
                         "the speed of the device cannot be measured while other processes use "
                         "%zu of its %zu MiB: end them (nvidia-smi lists those of a GPU) and "
                         "restart firnd",
                         (total_bytes - free_bytes) >> 20, total_bytes >> 20);
    return 0;
}

static int take(struct bench *bench, unsigned buffer, size_t size_bytes, struct error *error)
{
    return bench->kernel->allocate(bench->device, size_bytes, &bench->buffers[buffer])
               ? error_set(error, -ENOMEM, "no %zu MiB of the device to measure with",
                           size_bytes >> 20)
               : 0;
}

/* Fill with random numbers: a GPU computes faster with zeros, which take less power. */
static int fill(struct bench *bench, void *matrix, size_t count, struct error *error)
{
    const struct kernel *kernel = bench->kernel;
    AUTO_FREE float *numbers = malloc(RANDOM_COUNT * sizeof(float));
    void *on_device = NULL;

    if (!numbers || kernel->allocate(bench->device, RANDOM_COUNT * sizeof(float), &on_device))
        return error_set(error, -ENOMEM, "no memory for numbers to measure with");
    philox_fill_normal(philox_key_make(1, 1), 0, 0.0f, 1.0f, numbers, RANDOM_COUNT);
    kernel->upload(bench->device, on_device, numbers, RANDOM_COUNT * sizeof(float));
    for (size_t done = 0; done < count; done += RANDOM_COUNT)
        kernel->weights(bench->device, (char *)matrix + done * kernel->activation_size, on_device,
                        MIN(count - done, RANDOM_COUNT));
    int status = kernel->synchronize(bench->device, error);
    kernel->release(bench->device, on_device);
    return status;
}

static void multiply(const struct bench *bench)
{
    const struct kernel_linear shape = {.rows = bench->size->rows,
                                        .in = bench->size->in,
                                        .out = bench->size->out,
                                        .layout = KERNEL_WEIGHT_OUT_IN};
    bench->kernel->linear_forward(bench->device, bench->buffers[2], bench->buffers[0],
                                  bench->buffers[1], NULL, shape);
}

static void copy(const struct bench *bench)
{
    bench->kernel->copy(bench->device, bench->buffers[1], bench->buffers[0],
                        bench->size->copy_bytes);
}

static void fetch(const struct bench *bench)
{
    bench->kernel->transfer(bench->device, KERNEL_QUEUE_COPY, bench->host, bench->buffers[0],
                            bench->size->host_bytes);
}

/* A processor is shared, and a product may never fit between two time slices of other processes. So
 * a CPU slot counts the processor time of the calling thread, whose share of the work equals that
 * of each other thread of the slot. */
static uint64_t spent_ns(const struct bench *bench)
{
    struct timespec time;

    if (!bench->kernel->host_memory || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
        return clock_monotonic_ns();
    return (uint64_t)((double)((uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec) *
                      bench->turns);
}

/* Return the seconds of the fastest of several calls after a warm-up: noise only slows a call. */
static int seconds_of(const struct bench *bench, void (*call)(const struct bench *bench),
                      double *ret_seconds, struct error *error)
{
    uint64_t least_ns = UINT64_MAX, end_ns = 0;

    for (unsigned round = 0; round <= ROUNDS_MIN || clock_monotonic_ns() < end_ns; round++) {
        uint64_t began_ns = spent_ns(bench);
        call(bench);
        int status = bench->kernel->synchronize(bench->device, error);
        if (status)
            return status;
        if (round == 0)
            end_ns = clock_monotonic_ns() + bench->size->measure_ns;
        else
            least_ns = MIN(least_ns, spent_ns(bench) - began_ns);
    }
    *ret_seconds = (double)MAX(least_ns, (uint64_t)1) / NS_PER_SECOND;
    return 0;
}

int slot_benchmark_of_products(const struct kernel *kernel, const struct kernel_options *options,
                               const struct slot_benchmark_size *size, double *ret_flops_per_second,
                               struct error *error)
{
    CLEANUP(bench_done) struct bench bench = {.kernel = kernel, .size = size};
    size_t left = size->rows * size->in, right = size->in * size->out;
    size_t element = kernel->activation_size;
    double seconds = 0;
    int status = bench_open(&bench, options, error);

    if (!status)
        status = take(&bench, 0, left * element, error);
    if (!status)
        status = take(&bench, 1, right * element, error);
    if (!status)
        status = take(&bench, 2, size->rows * size->out * element, error);
    if (!status)
        status = fill(&bench, bench.buffers[0], left, error);
    if (!status)
        status = fill(&bench, bench.buffers[1], right, error);
    if (!status)
        status = seconds_of(&bench, multiply, &seconds, error);
    if (!status)
        *ret_flops_per_second = 2.0 * (double)left * (double)size->out / seconds;
    return status;
}

int slot_benchmark_of_memory(const struct kernel *kernel, const struct kernel_options *options,
                             const struct slot_benchmark_size *size, double *ret_memory_bytes,
                             double *ret_host_bytes, struct error *error)
{
    CLEANUP(bench_done) struct bench bench = {.kernel = kernel, .size = size};
    double copied = 0, fetched = 0;
    int status = bench_open(&bench, options, error);

    if (!status)
        status = take(&bench, 0, MAX(size->copy_bytes, size->host_bytes), error);
    if (!status)
        status = take(&bench, 1, size->copy_bytes, error);
    if (!status && ret_host_bytes &&
        kernel->host_allocate(bench.device, size->host_bytes, &bench.host))
        status = error_set(error, -ENOMEM, "no pinned memory to measure with");
    if (!status)
        status = seconds_of(&bench, copy, &copied, error);
    if (!status && ret_host_bytes)
        status = seconds_of(&bench, fetch, &fetched, error);
    if (status)
        return status;
    *ret_memory_bytes = 2.0 * (double)size->copy_bytes / copied;
    if (ret_host_bytes)
        *ret_host_bytes = (double)size->host_bytes / fetched;
    return 0;
}

/* ---- the program ---- */

static int print_products(enum kernel_backend backend, const struct kernel_options *options,
                          const struct slot_benchmark_size *size, struct error *error)
{
    static const struct {
        enum kernel_precision precision;
        const char *name;
    } precisions[] = {{KERNEL_PRECISION_BF16, "bf16"},
                      {KERNEL_PRECISION_TF32, "tf32"},
                      {KERNEL_PRECISION_F32, "f32"}};
    const struct kernel *kernel;
    int status = 0;

    for (size_t i = 0; !status && i < ARRAY_COUNT(precisions); i++) {
        double flops = 0;
        if (backend == KERNEL_BACKEND_CPU && precisions[i].precision != KERNEL_PRECISION_F32)
            continue;
        status = kernel_backend(backend, precisions[i].precision, &kernel, error);
        if (!status)
            status = slot_benchmark_of_products(kernel, options, size, &flops, error);
        if (!status)
            printf("%s %.1e ", precisions[i].name, flops);
    }
    return status;
}

/* Measure memory where a worker allocates it. */
static int print_memory(enum kernel_backend backend, const struct kernel_options *options,
                        const struct slot_benchmark_size *size, struct error *error)
{
    const struct kernel *kernel;
    struct nccl_library *nccl = NULL;
    const char *path = getenv("FIRN_NCCL_LIBRARY");
    double memory = 0, host = 0;
    int status = kernel_backend(backend, KERNEL_PRECISION_F32, &kernel, error);

    if (!status)
        status = slot_benchmark_of_memory(kernel, options, size, &memory,
                                          kernel->host_memory ? NULL : &host, error);
    if (status)
        return status;
    printf("memory %.1e", memory);
    if (!kernel->host_memory) {
        bool wanted = !path || path[0];
        bool found = wanted && !nccl_library_open(path ? path : NCCL_LIBRARY, &nccl, NULL);
        printf(" host %.1e nccl %d", host, found);
        nccl_library_close(nccl);
    }
    return 0;
}

int slot_benchmark_device(const char *device, enum kernel_backend *ret_backend,
                          struct kernel_options *ret_options, struct error *error)
{
    unsigned long threads = 1;
    char *end;

    if (!strcmp(device, "cuda")) {
        *ret_backend = KERNEL_BACKEND_CUDA;
        *ret_options = (struct kernel_options){.thread_count = 1};
        return 0;
    }
    if (strncmp(device, "cpu", 3) != 0 || (device[3] && device[3] != ':'))
        return error_set(error, -EINVAL, "it drives cpu and cuda slots, no %.32s", device);
    if (device[3] == ':') {
        threads = strtoul(device + 4, &end, 10);
        if (device[4] < '1' || device[4] > '9' || *end || threads > UINT_MAX)
            return error_set(error, -EINVAL, "%.32s: after cpu: stands the number of threads",
                             device);
    }
    *ret_backend = KERNEL_BACKEND_CPU;
    *ret_options = (struct kernel_options){.thread_count = (unsigned)threads};
    return 0;
}

int slot_benchmark_main(const char *device)
{
    enum kernel_backend backend = KERNEL_BACKEND_CPU;
    struct kernel_options options;
    struct error error = {0};
    int status = slot_benchmark_device(device, &backend, &options, &error);
    const struct slot_benchmark_size *size = backend == KERNEL_BACKEND_CUDA ? &whole : &of_cpu;

    if (!status)
        status = print_products(backend, &options, size, &error);
    if (!status)
        status = print_memory(backend, &options, size, &error);
    if (status) {
        fprintf(stderr, "firn-worker: %s\n", error.text);
        return EXIT_FAILURE;
    }
    return putchar('\n') < 0 || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
