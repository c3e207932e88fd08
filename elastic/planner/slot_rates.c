#include "elastic/planner/slot_rates.h"

#include "base/compiler.h"

/* AdamW reads 4 arrays and writes 3, and the weights if they are in bf16. */
#define CPU_BYTES_PER_SECOND 1.05e10
#define GPU_BYTES_PER_SECOND 2.5e12

/* Rate of a step's products, which include small ones and attention, relative to a large
 * product. */
#define STEP_SHARE 0.7

static double updated(double bytes_per_second, size_t activation_size)
{
    double arrays = 7 + (activation_size < sizeof(float) ? 0.5 : 0);
    return bytes_per_second / arrays;
}

/* Defaults: a CPU slot of one or two cores on a 10 Gbit/s network; a Hopper GPU at half of its bf16
 * peak, with a 200 Gbit/s link or the bus of its node. */
struct slot_rates slot_rates(bool gpu, enum job_precision precision)
{
    static const double gpu_flops[] = {
        [JOB_PRECISION_BF16] = 5e14, [JOB_PRECISION_TF32] = 2e14, [JOB_PRECISION_F32] = 4e13};
    struct slot_rates rates = {.flops_per_second = 2e10,
                               .link_bytes_per_second = 1e9,
                               .link_latency_seconds = 1e-4,
                               .activation_size = sizeof(float),
                               .host_memory = !gpu};

    if (gpu) {
        rates.flops_per_second = gpu_flops[precision];
        rates.link_bytes_per_second = 2.5e10;
        rates.link_latency_seconds = 5e-5;
        rates.activation_size = precision == JOB_PRECISION_BF16 ? 2 : sizeof(float);
    }
    rates.updated_bytes_second =
        updated(gpu ? GPU_BYTES_PER_SECOND : CPU_BYTES_PER_SECOND, rates.activation_size);
    return rates;
}

void slot_measured_raise(struct slot_measured *best, const struct slot_measured *other)
{
    for (unsigned i = 0; i < JOB_PRECISIONS; i++)
        best->flops_per_second[i] = MAX(best->flops_per_second[i], other->flops_per_second[i]);
    best->memory_bytes_per_second =
        MAX(best->memory_bytes_per_second, other->memory_bytes_per_second);
    best->link_bytes_per_second = MAX(best->link_bytes_per_second, other->link_bytes_per_second);
}

void slot_rates_correct(struct slot_rates *rates, enum job_precision precision,
                        const struct slot_measured *measured, bool one_node)
{
    double link = measured->link_bytes_per_second;

    if (measured->flops_per_second[precision] > 0)
        rates->flops_per_second = STEP_SHARE * measured->flops_per_second[precision];
    if (measured->memory_bytes_per_second > 0)
        rates->updated_bytes_second =
            updated(measured->memory_bytes_per_second, rates->activation_size);
    if (link > 0)
        rates->link_bytes_per_second = one_node ? link : MIN(link, rates->link_bytes_per_second);
}
