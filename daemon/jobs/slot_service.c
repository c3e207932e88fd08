#include "daemon/jobs/slot_service.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/jobs/job.h"
#include "daemon/node/inventory.h"
#include "elastic/agent/slot_backoff.h"
#include "membership/kv/keys.h"
#include "membership/transport/timer.h"

struct slot_service {
    struct daemon *daemon;
    slot_service_mended *mended;
    struct timer retry;
    struct slot_backoff probations[RECORD_SLOTS_MAX];
    bool excuses_known;       /* key `excused` has been read once, at excused_revision */
    int64_t excused_revision; /* last time an operator excused the slots; 0: never */
};

static uint64_t now_of(const struct slot_service *service)
{
    const struct loop *loop = &service->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void set_retry(struct slot_service *service)
{
    uint64_t next_ns = UINT64_MAX;

    for (unsigned slot = 0; slot < service->daemon->node.self.slot_count; slot++)
        if (service->probations[slot].is_out)
            next_ns = MIN(next_ns, service->probations[slot].until_ns);
    if (next_ns == UINT64_MAX)
        timer_clear(&service->retry);
    else
        timer_set_at(&service->retry, next_ns);
}

static void tell_jobs(const struct slot_service *service, unsigned slot)
{
    for (struct job *job = service->daemon->jobs; job; job = job->next)
        service->mended(job, slot);
}

uint64_t slot_service_take_out(struct slot_service *service, unsigned slot, const char *why,
                               bool crashed)
{
    struct daemon *daemon = service->daemon;
    struct node_record *self = &daemon->node.self;
    uint64_t now_ns = now_of(service), pause_ns = 0;

    snprintf(self->slots[slot].bad, sizeof(self->slots[slot].bad), "%.127s",
             why[0] ? why : "unknown");
    if (crashed)
        pause_ns = MAX(slot_backoff_take_out(&service->probations[slot], now_ns,
                                             daemon->config->failure_timeout_ns),
                       now_ns) -
                   now_ns;
    else
        service->probations[slot] = (struct slot_backoff){0};
    self->slots[slot].retry_unix_ns = crashed ? clock_unix_ns() + pause_ns : 0;
    set_retry(service);
    daemon_node_publish(&daemon->node);
    return pause_ns;
}

bool slot_service_watches(const struct slot_service *service, unsigned slot)
{
    return slot_backoff_watches(&service->probations[slot], now_of(service));
}

static void on_retry(void *context)
{
    struct slot_service *service = context;
    struct daemon *daemon = service->daemon;

    for (unsigned slot = 0; slot < daemon->node.self.slot_count; slot++) {
        if (!slot_backoff_try(&service->probations[slot], now_of(service),
                              daemon->config->failure_timeout_ns))
            continue;
        log_info("slot %u is tried again; it was out of service: %s", slot,
                 daemon->node.self.slots[slot].bad);
        inventory_excuse_slot(daemon->node.inventory, slot);
        tell_jobs(service, slot);
    }
    set_retry(service);
    daemon_node_publish(&daemon->node);
}

void slot_service_excuse(struct slot_service *service)
{
    inventory_excuse(service->daemon->node.inventory);
    for (unsigned slot = 0; slot < service->daemon->node.self.slot_count; slot++) {
        service->probations[slot] = (struct slot_backoff){0};
        tell_jobs(service, slot);
    }
    set_retry(service);
}

/* `firnctl node resume` on a node that does not drain changes only this key. A value older than
 * this firnd does not matter to its slots, which it has checked itself, but only to an earlier
 * firnd's report (daemon/jobs/job.c). */
void slot_service_sync(struct slot_service *service)
{
    struct daemon *daemon = service->daemon;
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = mirror_find(
        &daemon->keys.mirror, keys_excused(key, daemon->config->cluster, daemon->config->node));
    int64_t revision = entry ? entry->mod_revision : 0;

    if (service->excuses_known && revision > service->excused_revision) {
        log_info("an operator says that this node's slots are good again");
        slot_service_excuse(service);
        daemon_node_publish(&daemon->node);
    }
    service->excuses_known = true;
    service->excused_revision = revision;
}

int slot_service_new(struct daemon *daemon, slot_service_mended *mended,
                     struct slot_service **ret_service)
{
    struct slot_service *service = calloc(1, sizeof(*service));
    int status;

    if (!service)
        return -ENOMEM;
    service->daemon = daemon;
    service->mended = mended;
    status = timer_init(&service->retry, &daemon->loop.loop, on_retry, service);
    if (status)
        free(service);
    else
        *ret_service = service;
    return status;
}

void slot_service_free(struct slot_service *service)
{
    if (!service)
        return;
    timer_done(&service->retry);
    free(service);
}
