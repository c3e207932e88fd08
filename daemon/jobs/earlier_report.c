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

#define RETRY_NS      (NS_PER_SECOND / 5)
#define QUESTIONS_MAX 64 /* at once: a cluster keeps hundreds of jobs that are over */

struct question {
    struct earlier_report *earlier;
    struct kv_request *request; /* NULL: not in flight */
    char key[KV_KEY_MAX];       /* of the report; "": free */
};

struct earlier_report {
    struct daemon *daemon;
    struct question questions[QUESTIONS_MAX]; /* answered with a key: the report is absent */
    struct timer retry;
    bool fails; /* the last answer was an error: one question at a time, after a pause */
    uint64_t rests_until_ns;
};

static uint64_t now_ns(const struct earlier_report *earlier)
{
    const struct loop *loop = &earlier->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void rest(struct question *question)
{
    struct earlier_report *earlier = question->earlier;

    question->key[0] = '\0';
    earlier->rests_until_ns = now_ns(earlier) + RETRY_NS;
    timer_set_in(&earlier->retry, RETRY_NS);
}

static void on_answer(void *context, const struct kv_result *result)
{
    struct question *question = context;
    struct daemon *daemon = question->earlier->daemon;

    question->request = NULL;
    question->earlier->fails = result->status != 0;
    if (result->status) {
        rest(question);
        return;
    }
    if (result->entry_count) {
        const struct kv_event event = {.entry = result->entries[0]};
        question->key[0] = '\0';
        if (daemon->keys.partial && /* else it has all reports, and newer ones */
            mirror_apply(&daemon->keys.mirror, &event, daemon->keys.mirror.revision))
            log_error("no memory for a key of the cluster: this node's picture is incomplete");
    }
    daemon_wake(daemon);
}

static struct question *find(struct earlier_report *earlier, const char *key)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        if (!strcmp(earlier->questions[i].key, key))
            return &earlier->questions[i];
    return NULL;
}

/* Return a free place, or the place of an answer that no job has used; NULL: all are in flight. */
static struct question *find_room(struct earlier_report *earlier)
{
    struct question *free_one = find(earlier, "");

    for (unsigned i = 0; !free_one && i < QUESTIONS_MAX; i++)
        if (!earlier->questions[i].request)
            free_one = &earlier->questions[i];
    return free_one;
}

static bool may_ask(const struct earlier_report *earlier)
{
    bool waits = false;

    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        waits = waits || earlier->questions[i].request;
    return now_ns(earlier) >= earlier->rests_until_ns && !(earlier->fails && waits);
}

static void ask(struct earlier_report *earlier, const char *key)
{
    const struct kv *kv = earlier->daemon->keys.kv;
    struct question *question = may_ask(earlier) ? find_room(earlier) : NULL;

    if (!question) /* an answer or the timer will wake the daemon */
        return;
    question->earlier = earlier;
    stpcpy(question->key, key);
    if (kv->range(kv->context, key, false, on_answer, question, &question->request)) {
        question->request = NULL;
        rest(question);
    }
}

static void on_retry(void *context)
{
    struct earlier_report *earlier = context;

    daemon_wake(earlier->daemon); /* the reconciliation asks again if needed */
}

/*
 * The generations whose reports count and on which an earlier firnd of this node may have reported:
 * the plan in force, and the generation that a planned one follows, for nodes that have not
 * reported on the plan. 0: none.
 */
struct generations {
    uint64_t list[2];
};

/* Return none if the plan is absent or malformed, or if it arrived while this daemon was watching:
 * then no earlier firnd of this node can have reported on it. */
static struct generations generations_of(const struct daemon *daemon, const char *job)
{
    const struct mirror *mirror = &daemon->keys.mirror;
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(mirror, keys_job(key, daemon->config->cluster, job, "generation"));
    struct plan *plan = NULL;

    if (!entry || (daemon->keys.partial && entry->mod_revision > mirror->snapshot_revision) ||
        decode_cache_plan(mirror, entry, &plan, NULL))
        return (struct generations){0};
    const struct generations generations = {
        {plan->generation, plan->change.planned ? plan->follows : 0}};
    plan_free(plan);
    return generations;
}

static bool is_known(struct earlier_report *earlier, const char *job, uint64_t generation)
{
    const struct daemon *daemon = earlier->daemon;
    char key[KV_KEY_MAX];

    keys_report(key, daemon->config->cluster, job, generation, daemon->config->node);
    if (mirror_find(&daemon->keys.mirror, key))
        return true;
    const struct question *question = find(earlier, key);
    if (!question)
        ask(earlier, key);
    return question && !question->request;
}

bool earlier_report_known(struct earlier_report *earlier, const char *job)
{
    const struct daemon *daemon = earlier->daemon;

    if (!daemon->keys.partial)
        return true;
    const struct generations generations = generations_of(daemon, job);
    for (unsigned i = 0; i < ARRAY_COUNT(generations.list); i++)
        if (generations.list[i] && !is_known(earlier, job, generations.list[i]))
            return false;
    return true;
}

const struct mirror_entry *earlier_report_find(const struct daemon *daemon, const char *job)
{
    const struct generations generations = generations_of(daemon, job);
    const struct mirror_entry *entry = NULL;
    char key[KV_KEY_MAX];

    for (unsigned i = 0; !entry && i < ARRAY_COUNT(generations.list); i++)
        if (generations.list[i])
            entry = mirror_find(&daemon->keys.mirror,
                                keys_report(key, daemon->config->cluster, job, generations.list[i],
                                            daemon->config->node));
    return entry;
}

void earlier_report_forget(struct earlier_report *earlier)
{
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        if (!earlier->questions[i].request)
            earlier->questions[i].key[0] = '\0';
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
    for (unsigned i = 0; i < QUESTIONS_MAX; i++)
        earlier->daemon->keys.kv->cancel(earlier->daemon->keys.kv->context,
                                         earlier->questions[i].request);
    timer_done(&earlier->retry);
    free(earlier);
}
