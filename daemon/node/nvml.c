#include "daemon/node/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* ---- the part of the library's binary interface that is used ---- */

#define NVML_OK                  0
#define NVML_NO_DRIVER           9
#define NVML_GPU_LOST            15
#define NVML_FEATURE_ENABLED     1
#define NVML_ERROR_UNCORRECTED   1
#define NVML_COUNTER_VOLATILE    0
#define NVML_EVENT_XID           0x8ull
#define NVML_LINKS_MAX           18
#define NVML_ANCESTOR_HOSTBRIDGE 30 /* lower levels are switches */
#define NVML_ANCESTOR_NODE       40
#define EVENTS_PER_LOOK          64

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_event {
    nvml_device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct nvml_calls {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int code);
    int (*count)(unsigned *ret_count);
    int (*handle)(unsigned index, nvml_device *ret_device);
    int (*uuid)(nvml_device device, char *text, unsigned size);
    int (*name)(nvml_device device, char *text, unsigned size);
    int (*memory)(nvml_device device, struct nvml_memory *ret_memory);
    int (*pci)(nvml_device device, struct nvml_pci *ret_pci);
    int (*capability)(nvml_device device, int *ret_major, int *ret_minor);
    int (*mig)(nvml_device device, unsigned *ret_current, unsigned *ret_pending);
    int (*ecc)(nvml_device device, int type, int counter, unsigned long long *ret_count);
    int (*remapped)(nvml_device device, unsigned *ret_corrected, unsigned *ret_uncorrected,
                    unsigned *ret_pending, unsigned *ret_failed);
    int (*retirement)(nvml_device device, int *ret_pending);
    int (*ancestor)(nvml_device a, nvml_device b, int *ret_level);
    int (*link_state)(nvml_device device, unsigned link, int *ret_active);
    int (*link_remote)(nvml_device device, unsigned link, struct nvml_pci *ret_pci);
    int (*set_create)(nvml_event_set *ret_set);
    int (*set_register)(nvml_device device, unsigned long long types, nvml_event_set set);
    int (*set_wait)(nvml_event_set set, struct nvml_event *ret_event, unsigned timeout_ms);
    int (*set_free)(nvml_event_set set);
};

/* A function that an old driver lacks is NULL, unless it is required. */
static const struct {
    const char *name;
    size_t offset;
    bool needed;
} symbols[] = {
    {"nvmlInit_v2", offsetof(struct nvml_calls, init), true},
    {"nvmlShutdown", offsetof(struct nvml_calls, shutdown), true},
    {"nvmlErrorString", offsetof(struct nvml_calls, error_text), true},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml_calls, count), true},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml_calls, handle), true},
    {"nvmlDeviceGetUUID", offsetof(struct nvml_calls, uuid), true},
    {"nvmlDeviceGetName", offsetof(struct nvml_calls, name), true},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml_calls, memory), true},
    {"nvmlDeviceGetPciInfo_v3", offsetof(struct nvml_calls, pci), true},
    {"nvmlDeviceGetCudaComputeCapability", offsetof(struct nvml_calls, capability), true},
    {"nvmlDeviceGetMigMode", offsetof(struct nvml_calls, mig), false},
    {"nvmlDeviceGetTotalEccErrors", offsetof(struct nvml_calls, ecc), false},
    {"nvmlDeviceGetRemappedRows", offsetof(struct nvml_calls, remapped), false},
    {"nvmlDeviceGetRetiredPagesPendingStatus", offsetof(struct nvml_calls, retirement), false},
    {"nvmlDeviceGetTopologyCommonAncestor", offsetof(struct nvml_calls, ancestor), false},
    {"nvmlDeviceGetNvLinkState", offsetof(struct nvml_calls, link_state), false},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct nvml_calls, link_remote), false},
    {"nvmlEventSetCreate", offsetof(struct nvml_calls, set_create), false},
    {"nvmlDeviceRegisterEvents", offsetof(struct nvml_calls, set_register), false},
    {"nvmlEventSetWait_v2", offsetof(struct nvml_calls, set_wait), false},
    {"nvmlEventSetFree", offsetof(struct nvml_calls, set_free), false},
};

struct nvml {
    void *library;
    struct nvml_calls calls;
    bool initialized;
    nvml_event_set events; /* NULL: this driver has no events */
    nvml_device devices[GPU_COUNT_MAX];
};

static int load(struct nvml *nvml, const char *library, struct error *error)
{
    nvml->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return error_set(error, -ENOENT, "%s is not installed", library);
    for (size_t i = 0; i < ARRAY_COUNT(symbols); i++) {
        void *symbol = dlsym(nvml->library, symbols[i].name);
        if (!symbol && symbols[i].needed)
            return error_set(error, -EIO, "%s lacks %s: the driver is too old", library,
                             symbols[i].name);
        memcpy((char *)&nvml->calls + symbols[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

static int failed(const struct nvml *nvml, int code, const char *what, struct error *error)
{
    return error_set(error, code == NVML_NO_DRIVER ? -ENOENT : -EIO, "%s: %s", what,
                     nvml->calls.error_text(code));
}

/* ---- health ---- */

static void look_at(const struct nvml *nvml, unsigned place, struct gpu *gpu)
{
    const struct nvml_calls *calls = &nvml->calls;
    nvml_device device = nvml->devices[place];
    unsigned long long errors = 0;
    unsigned corrected, uncorrected, pending = 0, no_rows = 0, mode = 0, next_mode;
    int retiring = 0;
    struct nvml_memory memory;

    if (calls->memory(device, &memory) == NVML_GPU_LOST)
        gpu->lost = true;
    if (calls->ecc && !calls->ecc(device, NVML_ERROR_UNCORRECTED, NVML_COUNTER_VOLATILE, &errors))
        gpu->uncorrected_errors = errors;
    if (calls->remapped &&
        calls->remapped(device, &corrected, &uncorrected, &pending, &no_rows) != NVML_OK)
        pending = no_rows = 0;
    if (calls->retirement && calls->retirement(device, &retiring) != NVML_OK)
        retiring = 0;
    gpu->repair_pending = pending != 0 || retiring != 0;
    gpu->repair_failed = no_rows != 0;
    if (calls->mig && calls->mig(device, &mode, &next_mode) == NVML_OK)
        gpu->partitioned = mode == NVML_FEATURE_ENABLED;
}

/* Match by UUID as well: NVML does not promise that an event has the same handle as the list. */
static bool tells_of(const struct nvml *nvml, const struct nvml_event *event, unsigned place,
                     const struct gpu *gpu)
{
    char uuid[GPU_UUID_SIZE];

    return event->device == nvml->devices[place] ||
           (nvml->calls.uuid(event->device, uuid, sizeof(uuid)) == NVML_OK &&
            strcmp(uuid, gpu->uuid) == 0);
}

/* Events arrive in order of time; a later, lesser error does not replace a grave one. */
static void note_xid(const struct nvml *nvml, struct gpu_list *list, const struct nvml_event *event)
{
    for (unsigned i = 0; i < list->count; i++) {
        if (!tells_of(nvml, event, i, &list->gpus[i]))
            continue;
        log_warning("GPU %u (%s): the driver reports Xid %llu", list->gpus[i].index,
                    list->gpus[i].uuid, event->data);
        list->gpus[i].xid = gpu_xid_worse(list->gpus[i].xid, (unsigned)event->data);
    }
}

void nvml_look(struct nvml *nvml, struct gpu_list *list)
{
    struct nvml_event event;

    for (unsigned i = 0; i < list->count; i++)
        look_at(nvml, i, &list->gpus[i]);
    for (unsigned i = 0; nvml->events && i < EVENTS_PER_LOOK; i++) {
        if (nvml->calls.set_wait(nvml->events, &event, 0) != NVML_OK)
            break; /* no more events */
        if (event.type == NVML_EVENT_XID)
            note_xid(nvml, list, &event);
    }
}

/* ---- the list ---- */

static int describe(struct nvml *nvml, unsigned index, unsigned place, struct gpu *gpu,
                    struct error *error)
{
    const struct nvml_calls *calls = &nvml->calls;
    struct nvml_memory memory = {0};
    struct nvml_pci pci = {0};
    int major = 0, minor = 0;
    nvml_device device;
    int status = calls->handle(index, &device);

    if (status == NVML_OK)
        status = calls->uuid(device, gpu->uuid, sizeof(gpu->uuid));
    if (status == NVML_OK)
        status = calls->name(device, gpu->name, sizeof(gpu->name));
    if (status == NVML_OK)
        status = calls->memory(device, &memory);
    if (status == NVML_OK)
        status = calls->pci(device, &pci);
    if (status == NVML_OK)
        status = calls->capability(device, &major, &minor);
    if (status != NVML_OK) {
        error_set(error, -EIO, "GPU %u: %s", index, calls->error_text(status));
        return -EIO;
    }
    gpu->index = index;
    gpu->memory_bytes = memory.total;
    gpu->compute_major = (unsigned)major;
    gpu->compute_minor = (unsigned)minor;
    memcpy(gpu->bus_id, pci.bus_id, sizeof(gpu->bus_id));
    gpu->bus_id[sizeof(gpu->bus_id) - 1] = '\0';
    nvml->devices[place] = device;
    if (nvml->events)
        (void)!calls->set_register(device, NVML_EVENT_XID, nvml->events);
    return 0;
}

static bool linked(const struct nvml *nvml, unsigned a, const struct gpu *b)
{
    const struct nvml_calls *calls = &nvml->calls;

    for (unsigned link = 0; calls->link_state && calls->link_remote && link < NVML_LINKS_MAX;
         link++) {
        struct nvml_pci remote = {0};
        int active = 0;
        if (calls->link_state(nvml->devices[a], link, &active) == NVML_OK && active &&
            calls->link_remote(nvml->devices[a], link, &remote) == NVML_OK &&
            strncmp(remote.bus_id, b->bus_id, sizeof(b->bus_id)) == 0)
            return true;
    }
    return false;
}

/* Return whether a link of the GPU ends in something other than a GPU: an NVSwitch. Two GPUs
 * that are both connected to NVSwitches reach each other, although no link of one ends in the
 * other. */
static bool switched(const struct nvml *nvml, const struct gpu_list *list, unsigned place)
{
    const struct nvml_calls *calls = &nvml->calls;

    for (unsigned link = 0; calls->link_state && calls->link_remote && link < NVML_LINKS_MAX;
         link++) {
        struct nvml_pci remote = {0};
        int active = 0;
        bool gpu = false;
        if (calls->link_state(nvml->devices[place], link, &active) != NVML_OK || !active ||
            calls->link_remote(nvml->devices[place], link, &remote) != NVML_OK)
            continue;
        for (unsigned i = 0; i < list->count; i++)
            gpu |= strncmp(remote.bus_id, list->gpus[i].bus_id, sizeof(remote.bus_id)) == 0;
        if (!gpu)
            return true;
    }
    return false;
}

static enum gpu_path path_between(const struct nvml *nvml, const struct gpu_list *list, unsigned a,
                                  unsigned b)
{
    int level = INT32_MAX;

    if (a == b)
        return GPU_PATH_SELF;
    if (linked(nvml, a, &list->gpus[b]) || (switched(nvml, list, a) && switched(nvml, list, b)))
        return GPU_PATH_NVLINK;
    if (nvml->calls.ancestor &&
        nvml->calls.ancestor(nvml->devices[a], nvml->devices[b], &level) != NVML_OK)
        level = INT32_MAX;
    return level < NVML_ANCESTOR_HOSTBRIDGE ? GPU_PATH_PCIE
           : level <= NVML_ANCESTOR_NODE    ? GPU_PATH_NODE
                                            : GPU_PATH_SYSTEM;
}

static int enumerate(struct nvml *nvml, struct gpu_list *list, struct error *error)
{
    unsigned count = 0;
    int status = nvml->calls.count(&count);

    memset(list, 0, sizeof(*list));
    if (status != NVML_OK)
        return failed(nvml, status, "counting the GPUs", error);
    for (unsigned i = 0; i < count && list->count < GPU_COUNT_MAX; i++) {
        struct error why = {0};
        if (describe(nvml, i, list->count, &list->gpus[list->count], &why)) {
            log_warning("%s: it is left out", why.text);
            memset(&list->gpus[list->count], 0, sizeof(list->gpus[0]));
        } else {
            list->count++;
        }
    }
    for (unsigned a = 0; a < list->count; a++)
        for (unsigned b = 0; b < list->count; b++)
            list->gpus[a].paths[b] = (uint8_t)path_between(nvml, list, a, b);
    return 0;
}

static bool can_tell(const struct nvml_calls *calls)
{
    return calls->set_create && calls->set_register && calls->set_wait && calls->set_free;
}

int nvml_open(const char *library, struct nvml **ret_nvml, struct gpu_list *ret_list,
              struct error *error)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));

    if (!nvml)
        return error_set(error, -ENOMEM, "no memory for the list of GPUs");
    int status = load(nvml, library, error);
    int code = status ? NVML_OK : nvml->calls.init();
    if (code != NVML_OK)
        status = failed(nvml, code, library, error);
    nvml->initialized = !status;
    if (!status && can_tell(&nvml->calls) && nvml->calls.set_create(&nvml->events) != NVML_OK)
        nvml->events = NULL;
    if (!status)
        status = enumerate(nvml, ret_list, error);
    if (status) {
        nvml_close(nvml);
        return status;
    }
    nvml_look(nvml, ret_list);
    *ret_nvml = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->events)
        (void)!nvml->calls.set_free(nvml->events);
    if (nvml->initialized)
        (void)!nvml->calls.shutdown();
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
}
