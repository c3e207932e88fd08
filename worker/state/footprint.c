#include "worker/state/footprint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_SIZE 4096

void footprint_open(struct footprint *footprint, const struct kernel *kernel,
                    struct kernel_device *device)
{
    size_t total_bytes = 0;

    *footprint = (struct footprint){.kernel = kernel, .device = device};
    kernel->memory(device, &footprint->free_at_first, &total_bytes);
}

/* "5" to clear_refs resets the peak to the present resident size (proc(5)). If a process may not
 * write it, the peak since its start counts, which is never less than the generation's. */
void footprint_restart(struct footprint *footprint)
{
    AUTO_CLOSE int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    footprint->peak_bytes = 0;
    if (file >= 0 && write(file, "5", 1) != 1)
        return;
}

uint64_t footprint_parse(const char *text, const char *key)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, strlen(key)))
            return strtoull(line + strlen(key), NULL, 10) << 10; /* in "kB", which are KiB */
    }
    return 0;
}

static uint64_t process_peak(const struct dataset *dataset)
{
    AUTO_CLOSE int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    char text[STATUS_SIZE] = "";
    uint64_t copied = 0, mapped = 0;
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    text[MAX(length, 0)] = '\0';
    if (dataset)
        dataset_held_bytes(dataset, &copied, &mapped);
    uint64_t peak = footprint_parse(text, "VmHWM:");
    uint64_t data = copied + MIN(mapped, footprint_parse(text, "RssFile:"));
    return peak - MIN(peak, data);
}

static uint64_t device_peak(struct footprint *footprint)
{
    size_t free_bytes = footprint->free_at_first, total_bytes = 0;

    footprint->kernel->memory(footprint->device, &free_bytes, &total_bytes);
    uint64_t taken = footprint->free_at_first - MIN(free_bytes, footprint->free_at_first);
    footprint->peak_bytes = MAX(footprint->peak_bytes, taken);
    return footprint->peak_bytes;
}

uint64_t footprint_peak_bytes(struct footprint *footprint, const struct dataset *dataset)
{
    if (!footprint->kernel)
        return 0;
    return footprint->kernel->host_memory ? process_peak(dataset) : device_peak(footprint);
}
