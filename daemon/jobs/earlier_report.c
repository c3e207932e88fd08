#include "daemon/jobs/earlier_report.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
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
};

static void on_answer(void *context, const struct kv_result *result)
{
    struct question *question = context;
    struct daemon *daemon = question->earlier->daemon;

    question->request = NULL;
    if (result->status) {
        question->key[0] = '\0';
        timer_set_in(&question->earlier->retry, RETRY_NS);
        return;
    }
    if (result->entry_count) {
        const struct kv_event event = {.entry = result->entries[0]};
        question->key[0] = '\0';
        if (mirror_apply(&daemon->keys.mirror, &event, daemon->keys.mirror.revision))
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

/* Return a free place, or that of an answer which nobody came for; NULL: all are in flight. */
static struct question *find_room(struct earlier_report *earlier)
{
    struct question *free_one = find(earlier, "");

    for (unsigned i = 0; !free_one && i < QUESTIONS_MAX; i++)
        if (!earlier->questions[i].request)
            free_one = &earlier->questions[i];
    return free_one;
}

static void ask(struct earlier_report *earlier, const char *key)
{
    const struct kv *kv = earlier->daemon->keys.kv;
    struct question *question = find_room(earlier);

    if (!question) /* an answer wakes */
        return;
    question->earlier = earlier;
    stpcpy(question->key, key);
    if (kv->range(kv->context, key, false, on_answer, question, &question->request)) {
        question->request = NULL;
        question->key[0] = '\0';
        timer_set_in(&earlier->retry, RETRY_NS);
    }
}

static void on_retry(void *context)
{
    struct earlier_report *earlier = context;

    daemon_wake(earlier->daemon); /* which asks again if needed */
}

/*
 * Return the generation of the plan in force. Return 0 if there is none, if it is malformed, or if
 * it came while this daemon was following: then no earlier firnd of this node can have reported on
 * it.
 */
static uint64_t generation_of(const struct config *config, const struct mirror *mirror,
                              const char *job)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(mirror, keys_job(key, config->cluster, job, "generation"));
    AUTO_JSON json_t *tree = NULL;
    uint64_t generation = 0;

    if (!entry || entry->mod_revision > mirror->snapshot_revision ||
        json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        json_get_u64(tree, "generation", INT64_MAX, &generation, NULL))
        return 0;
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
    if (mirror_find(&daemon->keys.mirror, key))
        return true;
    const struct question *question = find(earlier, key);
    if (!question)
        ask(earlier, key);
    return question && !question->request;
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
