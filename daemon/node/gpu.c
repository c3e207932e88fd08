#include "daemon/node/gpu.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    unsigned xid;
    const char *meaning;
} grave[] = {
    {48, "a memory error that ECC could not correct"},
    {62, "the firmware halted"},
    {64, "a bad memory row could not be recorded"},
    {74, "an NVLink error"},
    {79, "it has fallen off the bus"},
    {95, "an uncontained memory error"},
    {119, "the firmware does not answer"},
    {120, "the firmware failed"},
    {140, "a memory error that ECC could not recover"},
    {143, "it did not start"},
};

static const char *grave_meaning(unsigned xid)
{
    for (size_t i = 0; i < ARRAY_COUNT(grave); i++)
        if (grave[i].xid == xid)
            return grave[i].meaning;
    return NULL;
}

unsigned gpu_xid_worse(unsigned old, unsigned new)
{
    return old == 0 || (!grave_meaning(old) && grave_meaning(new)) ? new : old;
}

bool gpu_fault(const struct gpu *gpu, char *text, size_t size)
{
    const char *meaning = grave_meaning(gpu->xid);

    if (gpu->lost)
        snprintf(text, size, "the driver has lost it; the machine must be restarted");
    else if (meaning)
        snprintf(text, size, "Xid %u: %s; reset it", gpu->xid, meaning);
    else if (gpu->repair_failed)
        snprintf(text, size, "its memory has no spare rows left; have it replaced");
    else if (gpu->uncorrected_errors > 0)
        snprintf(text, size, "%" PRIu64 " uncorrected memory errors; reset it",
                 gpu->uncorrected_errors);
    else if (gpu->repair_pending)
        snprintf(text, size, "memory repair is pending; reset it");
    else if (gpu->partitioned)
        snprintf(text, size, "MIG is on: firn uses whole GPUs; nvidia-smi -mig 0 -i %u",
                 gpu->index);
    else
        return false;
    return true;
}
