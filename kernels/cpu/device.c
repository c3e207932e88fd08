#include "kernels/cpu/device.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/team.h"

#define ALIGNMENT_BYTES  64
#define HUGE_PAGE_BYTES  ((size_t)2 << 20)
#define COPY_GRAIN_BYTES ((size_t)256 << 10)

int device_open(const struct kernel_options *options, struct kernel_device **ret_device,
                struct error *error)
{
    unsigned threads = options->thread_count;
    if (threads < 1 || threads > TEAM_MEMBERS_MAX)
        return error_set(error, -EINVAL, "a CPU slot has 1 to %d threads, not %u", TEAM_MEMBERS_MAX,
                         threads);

    struct kernel_device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(error, -ENOMEM, "no memory for a CPU device");
    device->scratch = aligned_alloc(ALIGNMENT_BYTES, threads * sizeof(struct device_scratch));
    int result = device->scratch ? team_new(threads, &device->team, error)
                                 : error_set(error, -ENOMEM,
                                             "no memory for the scratch of %u threads", threads);
    if (result < 0) {
        device_close(device);
        return result;
    }
    *ret_device = device;
    return 0;
}

void device_close(struct kernel_device *device)
{
    if (!device)
        return;
    team_free(device->team);
    free(device->scratch);
    free(device);
}

int device_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    void *memory = NULL;
    bool huge = size_bytes >= HUGE_PAGE_BYTES;
    int result = posix_memalign(&memory, huge ? HUGE_PAGE_BYTES : ALIGNMENT_BYTES,
                                MAX(size_bytes, (size_t)ALIGNMENT_BYTES));
    if (result != 0)
        return -result;
    if (huge)
        madvise(memory, size_bytes, MADV_HUGEPAGE); /* fewer TLB misses; only a hint */
    device_zero(device, memory, size_bytes);
    *ret_memory = memory;
    return 0;
}

void device_release(struct kernel_device *device, void *memory)
{
    (void)device;
    free(memory);
}

void device_memory(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    (void)device;
    (void)ret_free_bytes;
    (void)ret_total_bytes;
}

struct copy {
    char *to;
    const char *from; /* NULL: zeros */
};

static void copy_bytes(const void *context, size_t begin, size_t end,
                       struct device_scratch *scratch)
{
    const struct copy *copy = context;
    (void)scratch;
    if (copy->from)
        memcpy(copy->to + begin, copy->from + begin, end - begin);
    else
        memset(copy->to + begin, 0, end - begin);
}

void device_copy(struct kernel_device *device, void *to, const void *from, size_t size_bytes)
{
    if (size_bytes == 0)
        return;
    device_for(device, size_bytes, COPY_GRAIN_BYTES, copy_bytes,
               &(struct copy){.to = to, .from = from});
}

void device_zero(struct kernel_device *device, void *memory, size_t size_bytes)
{
    device_for(device, size_bytes, COPY_GRAIN_BYTES, copy_bytes, &(struct copy){.to = memory});
}

int device_synchronize(struct kernel_device *device, struct error *error)
{
    (void)device; /* every call has finished when it returns, and none can fail */
    (void)error;
    return 0;
}

struct split {
    struct kernel_device *device;
    size_t count, grain;
    device_share share;
    const void *context;
};

static void run_share(void *context, unsigned member, unsigned member_count)
{
    const struct split *split = context;
    size_t grains = (split->count + split->grain - 1) / split->grain;
    size_t begin = grains * member / member_count * split->grain;
    size_t end = MIN(grains * (member + 1) / member_count * split->grain, split->count);

    if (begin < end)
        split->share(split->context, begin, end, &split->device->scratch[member]);
}

void device_for(struct kernel_device *device, size_t count, size_t grain, device_share share,
                const void *context)
{
    struct split split = {device, count, grain, share, context};
    if (count < 2 * grain)
        run_share(&split, 0, 1);
    else
        team_run(device->team, run_share, &split);
}
