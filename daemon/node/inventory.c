#include "daemon/node/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/node/cpu_rates.h"
#include "daemon/node/gpu_rates.h"
#include "daemon/node/gpu_slots.h"
#include "daemon/node/numerics_identity.h"
#include "daemon/node/nvml.h"
#include "daemon/node/worker_version.h"

#define LOOK_NS (5 * NS_PER_SECOND)

struct inventory {
    struct daemon *daemon;
    struct nvml *nvml; /* NULL: CPU slots */
    struct gpu_list gpus;
    struct loop_timer *look;
    struct cpu_rates *cpu_rates; /* measurement in flight; NULL: not needed, or GPU slots */
};

/* ---- CPU slots ---- */

static uint64_t slot_memory(const struct config *config)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    if (config->slot_memory_mb)
        return (uint64_t)config->slot_memory_mb << 20;
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / config->slots : 0;
}

static void offer_cpu(const struct config *config, struct node_record *self)
{
    self->slot_count = config->slots;
    for (unsigned slot = 0; slot < config->slots; slot++) {
        snprintf(self->slots[slot].kind, sizeof(self->slots[slot].kind), "cpu");
        self->slots[slot].thread_count = config->threads;
        self->slots[slot].memory_bytes = slot_memory(config);
        self->slots[slot].speed = 1.0;
    }
}

static void take_cpu_rates(void *context, const struct record_rates *rates)
{
    struct daemon *daemon = context;

    daemon->node.self.rates = *rates;
    log_info("CPU slots: %.0f GFLOP/s in f32, %.0f GB/s of memory each", rates->f32_flops / 1e9,
             rates->memory_bytes / 1e9);
}

static void publish_cpu_rates(void *context, const struct record_rates *rates)
{
    struct daemon *daemon = context;

    if (!rates)
        return;
    take_cpu_rates(daemon, rates);
    daemon_node_publish(&daemon->node);
}

static void describe_cpu_rates(struct inventory *inventory)
{
    struct daemon *daemon = inventory->daemon;
    const struct cpu_rates_options options = {.loop = &daemon->loop.loop,
                                              .config = daemon->config,
                                              .numerics_identity =
                                                  daemon->node.self.numerics_identity,
                                              .measured = publish_cpu_rates,
                                              .context = daemon};
    struct record_rates rates;

    if (!daemon->node.self.slot_count || !daemon->node.self.numerics_identity[0])
        return;
    if (!cpu_rates_recall(daemon->config, daemon->node.self.numerics_identity, &rates)) {
        take_cpu_rates(daemon, &rates);
        return;
    }
    int status = cpu_rates_start(&options, &inventory->cpu_rates);
    if (status)
        log_warning("the processor is not measured: %s; plans assume a typical one",
                    strerror(-status));
}

/* ---- GPU slots ---- */

/* Only firn-worker knows the devices that it supports. */
static int ask_worker(const struct inventory *inventory, struct error *error)
{
    struct daemon *daemon = inventory->daemon;
    unsigned count = inventory->gpus.count;

    numerics_identity_describe_gpus(daemon->config, &inventory->gpus, &daemon->node.self);
    if (daemon->node.self.numerics_identity[0])
        return 0;
    memset(daemon->node.self.slots, 0, sizeof(daemon->node.self.slots));
    daemon->node.self.slot_count = 0;
    return error_set(error, -ENOTSUP, "%u GPU%s here, but %s drives none", count,
                     count == 1 ? " is" : "s are", daemon->config->worker);
}

static void look(void *context)
{
    struct inventory *inventory = context;
    struct daemon *daemon = inventory->daemon;

    nvml_look(inventory->nvml, &inventory->gpus);
    if (gpu_slots_update(&inventory->gpus, &daemon->node.self)) {
        for (unsigned i = 0; i < daemon->node.self.slot_count; i++)
            if (daemon->node.self.slots[i].bad[0])
                log_warning("slot %u (%s) is out of service: %s", i,
                            daemon->node.self.slots[i].device, daemon->node.self.slots[i].bad);
        daemon_node_publish(&daemon->node);
    }
    if (daemon->loop.loop.timer_set(daemon->loop.loop.context, inventory->look,
                                    clock_monotonic_ns() + LOOK_NS))
        log_error("the health of the GPUs is no longer looked at: a timer failed");
}

static int offer_gpus(struct inventory *inventory, struct error *error)
{
    struct daemon *daemon = inventory->daemon;
    const struct config *config = daemon->config;
    const struct loop *loop = &daemon->loop.loop;
    int status = nvml_open(NVML_LIBRARY, &inventory->nvml, &inventory->gpus, error);

    if (!status && inventory->gpus.count == 0)
        status = error_set(error, -ENODEV, "the driver sees no GPU");
    if (!status) {
        gpu_slots(&inventory->gpus, 65536 - config->link_port, config->threads, &daemon->node.self);
        status = ask_worker(inventory, error);
    }
    if (!status)
        status = loop->timer_add(loop->context, clock_monotonic_ns() + LOOK_NS, look, inventory,
                                 &inventory->look);
    if (status)
        return status;
    for (unsigned i = 0; i < daemon->node.self.slot_count; i++)
        log_info("slot %u: %s, %s%s%s", i, inventory->gpus.gpus[i].name,
                 daemon->node.self.slots[i].device,
                 daemon->node.self.slots[i].bad[0] ? ", out of service: " : "",
                 daemon->node.self.slots[i].bad);
    return 0;
}

/* ---- all of it ---- */

int inventory_open(struct daemon *daemon, struct inventory **ret_inventory, struct error *error)
{
    enum config_device device = daemon->config->device;
    struct error why = {0};
    struct inventory *inventory = calloc(1, sizeof(*inventory));

    if (!inventory)
        return error_set(error, -ENOMEM, "no memory for the list of devices");
    inventory->daemon = daemon;
    int status = device == CONFIG_DEVICE_CPU ? -ENODEV : offer_gpus(inventory, &why);
    if (status) {
        nvml_close(inventory->nvml);
        inventory->nvml = NULL;
    }
    if (status && device == CONFIG_DEVICE_CUDA) {
        inventory_close(inventory);
        return error_set(error, status, "device: cuda is asked for, but %s", why.text);
    }
    if (status)
        offer_cpu(daemon->config, &daemon->node.self);
    if (status && device == CONFIG_DEVICE_AUTO)
        log_info("CPU slots only: %s", why.text);
    *ret_inventory = inventory;
    return 0;
}

const char *inventory_device(const struct inventory *inventory)
{
    return inventory->nvml ? "cuda" : "cpu";
}

void inventory_describe(struct inventory *inventory)
{
    struct daemon *daemon = inventory->daemon;

    worker_version_describe(daemon->config, &daemon->node.self);
    if (inventory->nvml) {
        gpu_rates_describe(daemon->config, &inventory->gpus, &daemon->node.self);
        return;
    }
    numerics_identity_describe_cpu(daemon->config, &daemon->node.self);
    describe_cpu_rates(inventory);
}

void inventory_excuse(struct inventory *inventory)
{
    if (!inventory)
        return;
    for (unsigned i = 0; i < inventory->gpus.count; i++)
        inventory->gpus.gpus[i].xid = 0;
    for (unsigned slot = 0; slot < inventory->daemon->node.self.slot_count; slot++)
        inventory_excuse_slot(inventory, slot);
}

void inventory_excuse_slot(struct inventory *inventory, unsigned slot)
{
    if (!inventory)
        return;
    struct node_record *self = &inventory->daemon->node.self;
    self->slots[slot].retry_unix_ns = 0;
    if (self->slots[slot].computes <= RECORD_OTHERS_MAX) /* else no room in the record */
        self->slots[slot].bad[0] = '\0';
    if (inventory->nvml)
        gpu_slots_update(&inventory->gpus, self);
}

void inventory_close(struct inventory *inventory)
{
    if (!inventory)
        return;
    const struct loop *loop = &inventory->daemon->loop.loop;
    if (inventory->look)
        loop->timer_remove(loop->context, inventory->look);
    cpu_rates_free(inventory->cpu_rates);
    nvml_close(inventory->nvml);
    free(inventory);
}
