/* A fake of the driver's management library: the calls that daemon/node/nvml.c loads. */
#include "unit/daemon/fake_nvml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define OK        0
#define TIMEOUT   10
#define GPU_LOST  15
#define UNKNOWN   999
#define XID_EVENT 8ull

struct fake_nvml fake_nvml;

struct pci {
    char legacy[16];
    unsigned domain, bus, device, ids[2];
    char bus_id[32];
};

struct event {
    void *device;
    unsigned long long type, data;
    unsigned instances[2];
};

/* Handles are indices from 1; events use other handles for the same devices. */
#define OTHER_HANDLE 0x1000u

static unsigned place(const void *device)
{
    return (unsigned)((uintptr_t)device % OTHER_HANDLE - 1);
}

static void *handle(unsigned index)
{
    return (void *)((uintptr_t)index + 1);
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    fake_nvml.initialized += fake_nvml.init_code == OK;
    return fake_nvml.init_code;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
    fake_nvml.initialized--;
    return OK;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
    return code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *ret_count);
int nvmlDeviceGetCount_v2(unsigned *ret_count)
{
    *ret_count = fake_nvml.count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret_device)
{
    if (fake_nvml.gpus[index].broken)
        return UNKNOWN;
    *ret_device = handle(index);
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size);
int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
    snprintf(text, size, "GPU-0000-%u", place(device));
    return OK;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size);
int nvmlDeviceGetName(void *device, char *text, unsigned size)
{
    (void)device;
    snprintf(text, size, "Imaginary 100");
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *ret_sizes);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *ret_sizes)
{
    if (fake_nvml.gpus[place(device)].lost)
        return GPU_LOST;
    ret_sizes[0] = 80ull << 30;
    ret_sizes[1] = ret_sizes[2] = 40ull << 30;
    return OK;
}

/* GPUs are in PCI domain 0, a switch is in domain 1. */
static void fill_pci(struct pci *pci, unsigned domain, unsigned bus)
{
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:00.0", domain, bus);
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *ret_pci);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *ret_pci)
{
    fill_pci(ret_pci, 0, place(device));
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *ret_major, int *ret_minor);
int nvmlDeviceGetCudaComputeCapability(void *device, int *ret_major, int *ret_minor)
{
    (void)device;
    *ret_major = 9;
    *ret_minor = 0;
    return OK;
}

int nvmlDeviceGetMigMode(void *device, unsigned *ret_current, unsigned *ret_pending);
int nvmlDeviceGetMigMode(void *device, unsigned *ret_current, unsigned *ret_pending)
{
    *ret_current = *ret_pending = fake_nvml.gpus[place(device)].mig;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *ret_count);
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *ret_count)
{
    *ret_count = type == 1 && counter == 0 ? fake_nvml.gpus[place(device)].uncorrected : 12345;
    return OK;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed);
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = 7;
    *pending = fake_nvml.gpus[place(device)].pending_rows;
    *failed = fake_nvml.gpus[place(device)].failed_rows;
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *ret_level);
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *ret_level)
{
    *ret_level = fake_nvml.gpus[place(a)].socket == fake_nvml.gpus[place(b)].socket ? 20 : 50;
    return OK;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *ret_active);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *ret_active)
{
    *ret_active = link == 0 && fake_nvml.gpus[place(device)].links_to != -1;
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci *ret_pci);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci *ret_pci)
{
    int to = fake_nvml.gpus[place(device)].links_to;
    (void)link;
    fill_pci(ret_pci, to < 0, to < 0 ? 1 : (unsigned)to);
    return OK;
}

int nvmlEventSetCreate(void **ret_set);
int nvmlEventSetCreate(void **ret_set)
{
    *ret_set = handle(100);
    return OK;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    (void)device;
    (void)set;
    return types == XID_EVENT ? OK : UNKNOWN;
}

int nvmlEventSetWait_v2(void *set, struct event *ret_event, unsigned timeout_ms);
int nvmlEventSetWait_v2(void *set, struct event *ret_event, unsigned timeout_ms)
{
    (void)set;
    if (timeout_ms != 0 || fake_nvml.event_count == 0)
        return TIMEOUT;
    *ret_event = (struct event){.device = handle(fake_nvml.events[0].gpu + OTHER_HANDLE),
                                .type = XID_EVENT,
                                .data = fake_nvml.events[0].xid};
    memmove(&fake_nvml.events[0], &fake_nvml.events[1],
            --fake_nvml.event_count * sizeof(fake_nvml.events[0]));
    return OK;
}

int nvmlEventSetFree(void *set);
int nvmlEventSetFree(void *set)
{
    (void)set;
    return OK;
}
