#include "daemon/jobs/earlier_report.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "membership/kv/keys.h"
#include "membership/transport/timer.h"

#define RETRY_NS (NS_PER_SECOND / 5)

/* One request at a time, and one cached answer: jobs are opened one after the other. */
struct earlier_report {
    struct daemon *daemon;
    struct kv_request *question;
    char asked[KV_KEY_MAX];  /* key of the request in flight */
    char absent[KV_KEY_MAX]; /* last key that was found to be absent */
    struct timer retry;
};

static void on_answer(void *context, const struct kv_result *result)
{
    struct earlier_report *earlier = context;
    struct daemon *daemon = earlier->daemon;

    earlier->question = NULL;
    if (result->status) {
        timer_set_in(&earlier->retry, RETRY_NS);
        return;
    }
    if (!result->entry_count) {
        stpcpy(earlier->absent, earlier->asked);
    } else {
        const struct kv_event event = {.entry = result->entries[0]};
        if (mirror_apply(&daemon->keys.mirror, &event, daemon->keys.mirror.revision))
            log_error("no memory for a key of the cluster: this node's picture is incomplete");
    }
    daemon_wake(daemon);
}

static void ask(struct earlier_report *earlier)
{
    const struct kv *kv = earlier->daemon->keys.kv;

    if (earlier->question)
        return;
    timer_clear(&earlier->retry);
    if (kv->range(kv->context, earlier->asked, false, on_answer, earlier, &earlier->question)) {
        earlier->question = NULL;
        timer_set_in(&earlier->retry, RETRY_NS);
    }
}

static void on_retry(void *context)
{
    struct earlier_report *earlier = context;

    daemon_wake(earlier->daemon); /* which asks again if needed */
}

/*
 * Return the generation of the plan in force. Return 0 if there is none, if it is malformed, if it
 * needs nothing of this node while no other plan is prepared (most jobs that are over: a node with
 * hundreds of them would ask for long), or if it came while this daemon was following: then no
 * earlier firnd of this node can have reported on it.
 */
static uint64_t generation_of(const struct config *config, const struct mirror *mirror,
                              const char *job)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(mirror, keys_job(key, config->cluster, job, "generation"));
    struct plan *plan = NULL;
    uint64_t generation = 0;

    if (!entry || entry->mod_revision > mirror->snapshot_revision ||
        decode_cache_plan(mirror, entry, &plan, NULL))
        return 0;
    if (plan_layout_find_node(&plan->layout, config->node) >= 0 ||
        mirror_find(mirror, keys_job(key, config->cluster, job, "next")))
        generation = plan->generation;
    plan_free(plan);
    return generation;
}

bool earlier_report_known(struct earlier_report *earlier, const char *job)
{
    struct daemon *daemon = earlier->daemon;
    uint64_t generation =
        daemon->keys.partial ? generation_of(daemon->config, &daemon->keys.mirror, job) : 0;
    char key[KV_KEY_MAX];

    if (generation == 0)
        return true;
    keys_report(key, daemon->config->cluster, job, generation, daemon->config->node);
    if (!strcmp(key, earlier->absent) || mirror_find(&daemon->keys.mirror, key))
        return true;
    if (!earlier->question)
        stpcpy(earlier->asked, key);
    ask(earlier);
    return false;
}

void earlier_report_forget(struct earlier_report *earlier)
{
    earlier->absent[0] = '\0';
}

int earlier_report_new(struct daemon *daemon, struct earlier_report **ret_earlier)
{
    struct earlier_report *earlier = calloc(1, sizeof(*earlier));
    int status;

    if (!earlier)
        return -ENOMEM;
    earlier->daemon = daemon;
    status = timer_init(&earlier->retry, &daemon->loop.loop, on_retry, earlier);
    if (status)
        free(earlier);
    else
        *ret_earlier = earlier;
    return status;
}

void earlier_report_free(struct earlier_report *earlier)
{
    if (!earlier)
        return;
    earlier->daemon->keys.kv->cancel(earlier->daemon->keys.kv->context, earlier->question);
    timer_done(&earlier->retry);
    free(earlier);
}
