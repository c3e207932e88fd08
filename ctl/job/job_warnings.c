#include "ctl/job/job_warnings.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/plural.h"

/* The resources that the job could use now. */
struct offer {
    unsigned nodes, slots;
    unsigned draining;   /* nodes */
    const char *drained; /* the first one of them */
    bool knows_memory;   /* of any slot */
};

static struct offer offer_of(const struct cluster *cluster)
{
    struct offer offer = {0};

    for (size_t i = 0; i < cluster->node_count; i++) {
        const struct node_record *record = &cluster->nodes[i].record;
        unsigned good = 0;
        if (cluster->nodes[i].drained || record->draining) {
            offer.drained = offer.draining++ ? offer.drained : cluster->nodes[i].name;
            continue;
        }
        for (unsigned slot = 0; slot < record->slot_count; slot++)
            if (record->slots[slot].bad[0] == '\0') {
                good++;
                offer.knows_memory |= record->slots[slot].memory_bytes > 0;
            }
        offer.nodes += good > 0;
        offer.slots += good;
    }
    return offer;
}

static void add(struct job_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct job_warnings *warnings, const char *format, ...)
{
    va_list arguments;

    assert(warnings->count < JOB_WARNINGS_MAX);
    va_start(arguments, format);
    vsnprintf(warnings->texts[warnings->count++], JOB_WARNINGS_SIZE, format, arguments);
    va_end(arguments);
}

static void add_without_slots(const struct cluster *cluster, struct job_warnings *warnings)
{
    if (cluster->node_count == 0)
        add(warnings, "no node is registered in this cluster: the job waits until a firnd starts "
                      "with the same endpoints and cluster name in its firnd.yaml");
    else
        add(warnings,
            "no registered node has a slot in service (%zu node%s): the job waits until one has; "
            "firnctl node list shows what is wrong with the slots",
            cluster->node_count, plural(cluster->node_count));
}

void job_warnings(const struct cluster *cluster, const struct job_checkpoints *checkpoints,
                  const struct job_elasticity *elastic, struct job_warnings *ret_warnings)
{
    const struct offer offer = offer_of(cluster);
    const char *is = offer.nodes == 1 ? "node is" : "nodes are";

    *ret_warnings = (struct job_warnings){0};
    if (offer.nodes == 0 && offer.draining > 0) {
        char drain[64] = "the only registered node drains";
        if (offer.draining > 1)
            snprintf(drain, sizeof(drain), "all %u registered nodes drain", offer.draining);
        add(ret_warnings,
            "no node can train: %s; the job waits until firnctl node resume %s, or until another "
            "node joins",
            drain, offer.drained);
        return;
    }
    if (offer.nodes == 0) {
        add_without_slots(cluster, ret_warnings);
        return;
    }
    if (!offer.knows_memory && offer.slots > 0)
        add(ret_warnings,
            "the memory of the slots is not known, so plans do not check it: a worker that does "
            "not fit ends (set slot_memory_mb in firnd.yaml)");
    if (elastic->devices_min > offer.slots)
        add(ret_warnings, "elastic.devices.min is %u, and there %s %u slot%s: the job waits",
            elastic->devices_min, offer.slots == 1 ? "is" : "are", offer.slots,
            plural(offer.slots));
    if (checkpoints->copies > offer.nodes)
        add(ret_warnings,
            "checkpoint.copies is %u, but only %u %s there: a checkpoint has at most %u until "
            "more join",
            checkpoints->copies, offer.nodes, is, offer.nodes);
    if (elastic->shadow && offer.nodes == 1)
        add(ret_warnings,
            "elastic.shadow needs a second node for the copy, but only 1 node can train");
    if (checkpoints->every == 0)
        add(ret_warnings,
            "checkpoint.every is not set: only a pause, a drain and the end write a checkpoint; if "
            "all replicas of a stage die, the job restarts from step 1");
}
