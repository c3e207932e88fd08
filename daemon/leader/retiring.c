#include "daemon/leader/retiring.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/leader/retiring_choice.h"
#include "membership/kv/keys.h"
#include "membership/transport/timer.h"

#define LOOK_NS   (60 * NS_PER_SECOND)
#define SETTLE_NS (600 * NS_PER_SECOND) /* time as the leader before the clock is trusted */

struct retiring {
    struct daemon *daemon;
    struct timer timer;
    uint64_t leads_since_ns; /* 0: not the leader */
    struct kv_request *removal;
    struct retiring_job job; /* job being removed */
};

static uint64_t now_of(const struct retiring *retiring)
{
    const struct loop *loop = &retiring->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void on_removed(void *context, const struct kv_result *result)
{
    struct retiring *retiring = context;

    retiring->removal = NULL;
    if (!result->status && result->succeeded)
        log_info(
            "finished job %s was removed from the list; its checkpoints and metrics stay on disk",
            retiring->job.name);
    timer_set_in(&retiring->timer, LOOK_NS);
}

/* Remove the job only if its keys are as they were when it was chosen, and this node leads. */
static int remove_job(struct retiring *retiring)
{
    struct daemon *daemon = retiring->daemon;
    const char *cluster = daemon->config->cluster, *job = retiring->job.name;
    char spec[KV_KEY_MAX], state[KV_KEY_MAX], keys[KV_KEY_MAX], said[KV_KEY_MAX];
    const struct kv_compare compares[] = {
        election_guard(daemon->node.election),
        {.key = keys_job(spec, cluster, job, "spec"),
         .target = KV_MOD_REVISION,
         .value = retiring->job.spec_revision},
        {.key = keys_said(state, cluster, job, "state"),
         .target = KV_MOD_REVISION,
         .value = retiring->job.state_revision},
    };
    const struct kv_operation operations[] = {
        {.type = KV_DELETE_PREFIX, .key = keys_job(keys, cluster, job, "")},
        {.type = KV_DELETE_PREFIX, .key = keys_said(said, cluster, job, "")},
    };

    return daemon->keys.kv->txn(daemon->keys.kv->context, compares, ARRAY_COUNT(compares),
                                operations, ARRAY_COUNT(operations), on_removed, retiring,
                                &retiring->removal);
}

/* Return whether this node leads, has all keys, and has led for long enough. */
static bool may_look(struct retiring *retiring)
{
    const struct daemon *daemon = retiring->daemon;

    if (!daemon->node.election || !election_leads(daemon->node.election) || daemon->keys.partial ||
        daemon->keys.away) {
        retiring->leads_since_ns = 0;
        return false;
    }
    if (!retiring->leads_since_ns)
        retiring->leads_since_ns = now_of(retiring);
    return now_of(retiring) >= retiring->leads_since_ns + SETTLE_NS;
}

static void look(void *context)
{
    struct retiring *retiring = context;
    const struct daemon *daemon = retiring->daemon;

    if (may_look(retiring) &&
        retiring_choose(&daemon->keys.mirror, daemon->config->cluster,
                        daemon->config->keep_finished_ns, clock_unix_ns(), &retiring->job) &&
        !remove_job(retiring))
        return; /* on_removed() continues */
    timer_set_in(&retiring->timer, LOOK_NS);
}

int retiring_new(struct daemon *daemon, struct retiring **ret_retiring)
{
    struct retiring *retiring = calloc(1, sizeof(*retiring));
    int status;

    if (!retiring)
        return -ENOMEM;
    retiring->daemon = daemon;
    status = timer_init(&retiring->timer, &daemon->loop.loop, look, retiring);
    if (status) {
        free(retiring);
        return status;
    }
    timer_set_in(&retiring->timer, LOOK_NS);
    *ret_retiring = retiring;
    return 0;
}

void retiring_free(struct retiring *retiring)
{
    if (!retiring)
        return;
    retiring->daemon->keys.kv->cancel(retiring->daemon->keys.kv->context, retiring->removal);
    timer_done(&retiring->timer);
    free(retiring);
}
