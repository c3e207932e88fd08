#include "daemon/leader/leading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "daemon/checkpoint/download.h"
#include "daemon/config/config.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "daemon/core/events.h"
#include "daemon/core/view.h"
#include "daemon/leader/folder_look.h"
#include "daemon/leader/queueing.h"
#include "daemon/leader/time_share.h"
#include "membership/kv/keys.h"
#include "membership/transport/timer.h"

#define RETRY_NS            (NS_PER_SECOND / 5)
#define RETRY_LARGE_NS      (10 * NS_PER_SECOND) /* a plan that is too large for etcd */
#define REFUSED_NS          NS_PER_SECOND        /* between writes that etcd refuses */
#define UNREAD_NS           (10 * NS_PER_SECOND) /* between looks at keys that cannot be read */
#define OLD_GENERATIONS_MAX 4 /* generations whose reports are deleted with one plan */

/*
 * Limit the leader's share of the CPU. Deciding for a job of a thousand nodes takes milliseconds,
 * and as many reports may arrive one by one. After each decision the leader rests for a multiple of
 * the decision's duration, and longer where the delay is not noticeable.
 */
#define REST_SHARE     3
#define REST_SHARE_MAX 10
#define UNNOTICED_NS   (NS_PER_SECOND / 20)

/* A job's state in the leader. */
struct led {
    struct led *next;
    struct leading *leading;
    char job[NAME_SIZE];
    int64_t created; /* revision of the submission: another job may have taken the name */
    struct leader_memory memory;
    struct refused_checkpoints refused;
    struct queueing_need need;
    struct folder_look *look; /* at the checkpoint of a plan */
    struct kv_request *writing;
    struct kv_request *marking; /* writing of a damage note */
    enum leader_action action;  /* being written */
    char words[PLAN_REASON_SIZE + 128];
    uint64_t generation;
    struct loop_timer *timer;
    uint64_t rests_until_ns;
    bool told_over;               /* the job's end is in the events */
    bool told_refusal;            /* logged that etcd refuses this job's plans */
    char unread[ERROR_TEXT_SIZE]; /* why the job's keys cannot be read; "": they can */
};

/*
 * Jobs compete for the same slots, so plans are written one at a time: until the mirror shows the
 * last plan, the views of other jobs are out of date.
 */
struct leading {
    struct daemon *daemon;
    struct download *download;
    struct led *jobs;
    struct led *writer;       /* job whose plan is being written; NULL: none */
    int64_t written_revision; /* revision of the last plan that was written */
    struct time_share share;  /* spent on all jobs */
    char next[NAME_SIZE];     /* the job to consider next; "": all have been considered */
    struct timer resume;
};

static const char *const state_words[] = {
    [JOB_WAITING] = "waiting",       [JOB_PREPARING] = "preparing", [JOB_RUNNING] = "running",
    [JOB_RECOVERING] = "recovering", [JOB_PAUSING] = "pausing",     [JOB_PAUSED] = "paused",
    [JOB_COMPLETED] = "completed",   [JOB_CANCELLED] = "cancelled", [JOB_FAILED] = "failed",
};

static void consider(struct led *led);

static void wake_at(struct led *led, uint64_t at_ns)
{
    const struct loop *loop = &led->leading->daemon->loop.loop;

    if (loop->timer_set(loop->context, led->timer, at_ns))
        log_error("job %s: the leader's timer failed", led->job);
}

static void tell(const struct led *led, const char *kind, const char *text)
{
    struct daemon *daemon = led->leading->daemon;
    char dir[CONFIG_TEXT_SIZE];
    struct event_facts facts = {.job = led->job,
                                .node = daemon->config->node,
                                .generation = led->generation,
                                .pause_seconds = -1};

    job_dir_format(daemon->config, led->job, dir);
    events_append(dir, &facts, kind, text);
}

/* ---- writing ---- */

static void on_written(void *context, const struct kv_result *result)
{
    struct led *led = context;
    const struct loop *loop = &led->leading->daemon->loop.loop;

    led->writing = NULL;
    led->leading->writer = NULL;
    if (!result->status && result->succeeded) {
        led->leading->written_revision = result->revision;
        if (led->action == LEADER_PUBLISH || led->action == LEADER_PREPARE)
            tell(led, led->action == LEADER_PUBLISH ? "plan" : "prepare", led->words);
    } else if (!kv_refused(result->status) || !led->told_refusal) {
        log_info("job %s: the leader's write failed (%s); deciding again", led->job,
                 result->status ? result->error.text : "the keys have changed meanwhile");
    }
    led->told_refusal = kv_refused(result->status);
    if (led->told_refusal) /* wait: no event before then can help */
        led->rests_until_ns = loop->now_ns(loop->context) + REFUSED_NS;
    wake_at(led, loop->now_ns(loop->context) + (result->status ? RETRY_NS : 0));
    daemon_wake(led->leading->daemon); /* the other jobs have waited for this */
}

static bool make_key(struct plan_links *links)
{
    uint8_t random[32];

    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(links->key + 2 * i, 3, "%02x", random[i]);
    return true;
}

static char *plan_text(struct plan *plan)
{
    AUTO_JSON json_t *tree = NULL;

    if (!plan->links.key[0] && !make_key(&plan->links))
        return NULL;
    tree = plan_encode(plan);
    return tree ? json_text(tree) : NULL;
}

/*
 * Find reports of generations before the one in force, which are of no use any more: the generation
 * just before it, and others that an earlier leader left.
 */
static unsigned find_old_reports(const struct led *led, uint64_t keep_from,
                                 char ret_prefixes[OLD_GENERATIONS_MAX][KV_KEY_MAX])
{
    const struct daemon *daemon = led->leading->daemon;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    unsigned used = 0;
    size_t count =
        mirror_range(&daemon->keys.mirror,
                     keys_said(prefix, daemon->config->cluster, led->job, "reports/"), &entries);
    size_t length = strlen(prefix);
    uint64_t last = 0; /* reports of one generation are adjacent */

    for (size_t i = 0; i < count && used < OLD_GENERATIONS_MAX; i++) {
        uint64_t generation = strtoull(entries[i].key + length, NULL, 10);
        if (generation >= keep_from || (used > 0 && generation == last))
            continue;
        keys_report(ret_prefixes[used++], daemon->config->cluster, led->job, generation, "");
        last = generation;
    }
    return used;
}

/* Keys of the comparisons that guard a plan that reads its state from a checkpoint. */
struct start_guard {
    char all[KV_KEY_MAX], end[KV_KEY_MAX], record[KV_KEY_MAX];
};

/* Make the transaction fail if the records of checkpoints have changed since the decision for a
 * plan that does not begin from memory. When a late write reaches etcd, the old generation may have
 * recorded a newer checkpoint, and retention removed the plan's. Return the number of comparisons.
 */
static size_t guard_start(const struct led *led, const struct plan *plan, struct start_guard *guard,
                          struct kv_compare *ret_compares)
{
    const struct daemon *daemon = led->leading->daemon;
    const char *cluster = daemon->config->cluster;
    const struct mirror_entry *entries;
    int64_t known_revision = 0;
    size_t count = 0;

    if (!plan || !plan->layout.worker_count || plan->start.source == PLAN_SOURCE_MEMORY)
        return 0;
    size_t records = mirror_range(
        &daemon->keys.mirror, keys_job(guard->all, cluster, led->job, "checkpoints/"), &entries);
    for (size_t i = 0; i < records; i++)
        known_revision = MAX(known_revision, entries[i].mod_revision);
    ret_compares[count++] =
        (struct kv_compare){.key = guard->all,
                            .target = KV_NOT_AFTER,
                            .value = known_revision,
                            .before = keys_job(guard->end, cluster, led->job, "checkpoints0")};
    const struct mirror_entry *record =
        mirror_find(&daemon->keys.mirror,
                    keys_checkpoint(guard->record, cluster, led->job, plan->start.resume_step));
    if (record)
        ret_compares[count++] = (struct kv_compare){
            .key = guard->record, .target = KV_MOD_REVISION, .value = record->mod_revision};
    return count;
}

static void write_plan(struct led *led, const struct view *view,
                       const struct leader_decision *decision)
{
    struct daemon *daemon = led->leading->daemon;
    char generation_key[KV_KEY_MAX], next_key[KV_KEY_MAX];
    char old_reports[OLD_GENERATIONS_MAX][KV_KEY_MAX];
    struct kv_operation operations[2 + OLD_GENERATIONS_MAX];
    size_t count = 0;
    AUTO_FREE char *text = decision->plan ? plan_text(decision->plan) : NULL;

    keys_job(generation_key, daemon->config->cluster, led->job, "generation");
    keys_job(next_key, daemon->config->cluster, led->job, "next");
    struct start_guard guard;
    struct kv_compare compares[5] = {
        election_guard(daemon->node.election),
        {.key = generation_key, .target = KV_MOD_REVISION, .value = view->plan_revision},
        {.key = next_key, .target = KV_MOD_REVISION, .value = view->next_revision},
    };
    size_t compare_count = 3 + guard_start(led, decision->plan, &guard, compares + 3);
    if (decision->action == LEADER_PREPARE) {
        operations[count++] = (struct kv_operation){.type = KV_PUT, .key = next_key, .value = text};
    } else if (decision->action == LEADER_PUBLISH) {
        operations[count++] =
            (struct kv_operation){.type = KV_PUT, .key = generation_key, .value = text};
        operations[count++] = (struct kv_operation){.type = KV_DELETE, .key = next_key};
        unsigned old_count =
            find_old_reports(led, view->plan ? view->plan->generation : 0, old_reports);
        for (unsigned i = 0; i < old_count; i++)
            operations[count++] =
                (struct kv_operation){.type = KV_DELETE_PREFIX, .key = old_reports[i]};
    } else {
        operations[count++] = (struct kv_operation){.type = KV_DELETE, .key = next_key};
    }
    led->action = decision->action;
    led->generation = decision->plan ? decision->plan->generation : view->next->generation;
    snprintf(led->words, sizeof(led->words), "%s generation %" PRIu64 ": %s",
             decision->action == LEADER_PREPARE ? "preparing" : "plan of", led->generation,
             decision->plan ? decision->plan->change.text : "");
    int status = decision->plan && !text
                     ? -ENOMEM
                     : daemon->keys.kv->txn(daemon->keys.kv->context, compares, compare_count,
                                            operations, count, on_written, led, &led->writing);
    if (status) {
        log_error("job %s: a plan of %zu bytes could not be sent (%s); trying again", led->job,
                  text ? strlen(text) : 0, strerror(-status));
        wake_at(led, daemon->loop.loop.now_ns(&daemon->loop) +
                         (status == -EFBIG ? RETRY_LARGE_NS : RETRY_NS));
        return;
    }
    led->leading->writer = led;
}

/* The state is for operators and changes rarely; the newest text wins. @known: as etcd has it */
static void write_state(struct led *led, const struct state_record *known, const char *state,
                        const char *text)
{
    struct daemon *daemon = led->leading->daemon;
    char key[KV_KEY_MAX];
    struct state_record record = {.unix_ns = clock_unix_ns()};

    if (!strcmp(known->state, state) && !strcmp(known->text, text))
        return;
    snprintf(record.state, sizeof(record.state), "%s", state);
    snprintf(record.text, sizeof(record.text), "%s", text);
    bool over = view_job_over(state);
    if (over && daemon->config->keep_finished_ns)
        record.kept_until_unix_ns = record.unix_ns + daemon->config->keep_finished_ns;
    AUTO_JSON json_t *tree = state_record_encode(&record);
    AUTO_FREE char *words = tree ? json_text(tree) : NULL;
    if (!words || outbox_put(daemon->keys.outbox,
                             keys_said(key, daemon->config->cluster, led->job, "state"), words))
        log_error("job %s: no memory to write its state", led->job);
    if (over && !led->told_over && strcmp(known->state, state))
        tell(led, "state", text[0] ? text : state);
    led->told_over = over;
}

/* ---- deciding ---- */

static void on_marked(void *context, const struct kv_result *result)
{
    struct led *led = context;
    const struct loop *loop = &led->leading->daemon->loop.loop;

    led->marking = NULL;
    if (result->status) /* etcd is away; otherwise the mirror will show the record */
        wake_at(led, loop->now_ns(loop->context) + RETRY_NS);
}

/* Note damage in the records, one at a time, unless the record was written anew meanwhile. */
static void mark_damaged(struct led *led)
{
    struct daemon *daemon = led->leading->daemon;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(&daemon->keys.mirror,
                     keys_job(prefix, daemon->config->cluster, led->job, "checkpoints/"), &entries);

    for (size_t i = 0; i < count && !led->marking; i++) {
        const char *why = refused_damage(&led->refused, entries[i].mod_revision);
        AUTO_FREE char *text = why ? checkpoint_entry_damaged(&entries[i], why) : NULL;
        const struct kv_compare compares[] = {
            election_guard(daemon->node.election),
            {.key = entries[i].key, .target = KV_MOD_REVISION, .value = entries[i].mod_revision}};
        const struct kv_operation operation = {
            .type = KV_PUT, .key = entries[i].key, .value = text};
        if (text && daemon->keys.kv->txn(daemon->keys.kv->context, compares, ARRAY_COUNT(compares),
                                         &operation, 1, on_marked, led, &led->marking))
            log_error("job %s: no memory to note a damaged checkpoint", led->job);
    }
}

/* @damaged: false: unreachable for too long */
static void refuse(struct led *led, uint64_t step, int64_t revision, const char *unasked,
                   bool damaged, const char *why)
{
    char text[ERROR_TEXT_SIZE + 128];

    if (damaged && !unasked[0])
        refused_add_damaged(&led->refused, revision, why);
    else
        refused_add(&led->refused, revision, unasked);
    if (unasked[0])
        snprintf(text, sizeof(text),
                 "the checkpoint of step %" PRIu64 " cannot be read without nodes that are away "
                 "(%.256s): %s",
                 step, unasked, why);
    else
        snprintf(text, sizeof(text),
                 "the checkpoint of step %" PRIu64 " is unusable; using the one before it: %s",
                 step, why);
    log_warning("job %s: %s", led->job, text);
    tell(led, "checkpoint", text);
}

/* Mark the folder so that no later checkpoint links its files, if this node reaches the folder.
 * A checkpoint whose manifest does not load is never linked anyway. */
static void mark_folder(const struct led *led, const char *path)
{
    struct error error = {0};

    if (checkpoint_mark_damaged(path, &error) && error.code != -ENOENT && error.code != -EBADMSG)
        log_warning("job %s: %s", led->job, error.text);
}

/*
 * Return whether the plan can be written now; else the job is considered again.
 *
 * Never plan with a missing checkpoint: use the one before it. The workers find damage in its
 * files, because reading them here could take longer than a leader may be silent. A checkpoint that
 * this node cannot reach may still be reachable for the workers.
 */
static bool checkpoint_is_there(struct led *led, const struct view *view,
                                const struct plan_start *start)
{
    struct error error = {0};

    if (start->source != PLAN_SOURCE_CHECKPOINT || start->resume_step != view->view.checkpoint.step)
        return true;
    if (view->view.checkpoint.shares) /* its shares are on other nodes: the workers check them */
        return true;
    int status;
    if (!folder_look_at(led->look, start->restore_path, &status, &error)) {
        wake_at(led, view->view.now_ns + ERRAND_PATIENCE_NS);
        return false;
    }
    if (!status)
        return true;
    if (!checkpoint_is_lost(start->restore_path, status)) {
        log_warning("job %s: the leader cannot look at the checkpoint of step %" PRIu64 ": %s",
                    led->job, start->resume_step, error.text);
        return true;
    }
    refuse(led, start->resume_step, view->checkpoint_revision, "", true, error.text);
    mark_folder(led, start->restore_path);
    wake_at(led, view->view.now_ns);
    return false;
}

/* Refuse a checkpoint that a worker of the plan in force has read and found damaged: for good,
 * or until nodes are back that the workers could not ask. Return true if the view was made with
 * the refused checkpoint. */
static bool refuse_lost(struct led *led, const struct view *view)
{
    const struct worker_report *witness =
        refused_witness(view->plan, view->reports, view->view.report_count);
    char unasked[REFUSED_UNASKED_SIZE];

    if (!witness || view->view.checkpoint.step != view->plan->start.resume_step ||
        strcmp(view->view.checkpoint.path, view->plan->start.restore_path))
        return false;
    copies_unasked(view->view.checkpoint.shares, &view->plan->checkpoints, unasked,
                   sizeof(unasked));
    const char *known = refused_unasked(&led->refused, view->checkpoint_revision);
    if (known && !strcmp(known, unasked)) /* already known: one of the nodes has come back since */
        return false;
    refuse(led, view->plan->start.resume_step, view->checkpoint_revision, unasked, true,
           witness->text);
    if (!view->view.checkpoint.shares)
        mark_folder(led, view->plan->start.restore_path);
    return true;
}

/* Return whether the decision is a plan that starts from a checkpoint or from step 0, or no
 * plan because the nodes with the checkpoint are away. */
static bool begins_anew(const struct leader_decision *decision)
{
    if (decision->action == LEADER_PREPARE || decision->action == LEADER_PUBLISH)
        return decision->plan && decision->plan->layout.worker_count > 0 &&
               decision->plan->start.source != PLAN_SOURCE_MEMORY;
    return decision->misses_checkpoint;
}

/* Return whether to postpone the decision until the object store is known to have nothing
 * newer, or until its checkpoint is here. */
static bool waits_for_store(struct led *led, const struct view *view,
                            const struct leader_decision *decision)
{
    char text[RECORD_TEXT_SIZE];

    if (!begins_anew(decision) ||
        !download_holds(led->leading->download, led->job, view->view.checkpoint.step, text))
        return false;
    write_state(led, &view->state, state_words[decision->state], text);
    wake_at(led, view->view.now_ns + NS_PER_SECOND);
    return true;
}

/* Return false if the decision cannot be carried out yet. */
static bool carry_out(struct led *led, const struct view *view, struct leader_decision *decision)
{
    if (decision->gives_up_checkpoint) {
        refuse(led, view->view.checkpoint.step, view->checkpoint_revision, "", false,
               decision->text);
        wake_at(led, view->view.now_ns);
        return true;
    }
    if (decision->takes_back_checkpoints) {
        refused_take_back(&led->refused);
        log_warning("job %s: %s", led->job, decision->text);
        tell(led, "checkpoint", decision->text);
        wake_at(led, view->view.now_ns);
        return true;
    }
    if (waits_for_store(led, view, decision))
        return false;
    write_state(led, &view->state, state_words[decision->state], decision->text);
    if (decision->action == LEADER_NOTHING || decision->action == LEADER_FINISH)
        return true;
    if (decision->action == LEADER_PUBLISH &&
        !checkpoint_is_there(led, view, &decision->plan->start))
        return false;
    write_plan(led, view, decision);
    return true;
}

static const struct queueing_need *need_of(const void *context, const char *job)
{
    const struct leading *leading = context;

    for (const struct led *led = leading->jobs; led; led = led->next)
        if (!strcmp(led->job, job))
            return &led->need;
    return NULL;
}

/* Learn from a job that did not start although it may have had enough slots: other jobs must
 * not wait for it. */
static void learn(struct led *led, const struct view *view, const struct queueing *queueing)
{
    unsigned before = led->need.slots;

    queueing_learn(queueing, view->view.now_ns, &led->need);
    if (led->need.slots > before)
        daemon_wake(led->leading->daemon);
}

static void decide(struct led *led, struct view *view, const struct queueing *queueing)
{
    const struct leader_memory before = led->memory;
    struct leader_decision decision = {0};
    struct error error = {0};

    view->view.queue = queueing_place(queueing);
    if (leader_decide(&view->view, &led->memory, &decision, &error)) {
        log_error("job %s: the leader cannot decide: %s", led->job, error.text);
        wake_at(led, view->view.now_ns + RETRY_NS);
        return;
    }
    wake_at(led, decision.wake_at_ns);
    if (decision.action == LEADER_NOTHING && decision.state == JOB_WAITING)
        learn(led, view, queueing);
    if (!carry_out(led, view, &decision) && decision.plan) /* a plan that no node has seen */
        led->memory = before;
    plan_free(decision.plan);
}

/* Decide for one job, given its place in the queue. */
static void decide_in_turn(struct led *led, struct view *view)
{
    const struct daemon *daemon = led->leading->daemon;
    struct queueing queueing = {0};

    if (queueing_look(&daemon->keys.mirror, daemon->config->cluster, led->job, view, need_of,
                      led->leading, &queueing)) {
        log_error("job %s: no memory to look at the other jobs", led->job);
        wake_at(led, view->view.now_ns + RETRY_NS);
        return;
    }
    decide(led, view, &queueing);
    queueing_done(&queueing);
}

/* Return false while deregistering, and before all keys have arrived. */
static bool leads(const struct cluster_keys *keys, const struct daemon_node *node)
{
    return node->election && election_leads(node->election) && !keys->partial;
}

static uint64_t rest_ns(uint64_t took_ns)
{
    return MAX(REST_SHARE * took_ns, MIN(REST_SHARE_MAX * took_ns, UNNOTICED_NS));
}

/* Return whether there is time for a decision now; else the rest follows at @job and on. */
static bool has_time(struct leading *leading, const char *job)
{
    uint64_t now_ns = leading->daemon->loop.loop.now_ns(&leading->daemon->loop);
    uint64_t free_ns = time_share_free_ns(&leading->share, now_ns);

    if (free_ns <= now_ns)
        return true;
    if (!leading->next[0])
        snprintf(leading->next, sizeof(leading->next), "%s", job);
    timer_set_at(&leading->resume, free_ns);
    return false;
}

/* Report once, to operators and to users, that the job's keys cannot be read; a newer firn may have
 * submitted the job or written its plan. Retry after a pause, not at each change of any key. */
static void say_unread(struct led *led, const struct error *error, uint64_t now_ns)
{
    const struct daemon *daemon = led->leading->daemon;
    char key[KV_KEY_MAX], text[RECORD_TEXT_SIZE];
    const struct mirror_entry *entry = mirror_find(
        &daemon->keys.mirror, keys_said(key, daemon->config->cluster, led->job, "state"));
    const struct state_record *known =
        entry ? decode_cache_state(&daemon->keys.mirror, entry) : NULL;
    const struct state_record none = {.state = "waiting"};

    led->rests_until_ns = now_ns + UNREAD_NS;
    wake_at(led, led->rests_until_ns);
    if (!strcmp(led->unread, error->text))
        return;
    snprintf(led->unread, sizeof(led->unread), "%s", error->text);
    log_error("job %s: %s", led->job, error->text);
    snprintf(text, sizeof(text),
             "node %s leads and cannot read this job: %.256s; if a newer firn wrote it, upgrade "
             "that node",
             daemon->config->node, error->text);
    write_state(led, known ? known : &none, known ? known->state : none.state, text);
}

static void consider(struct led *led)
{
    struct daemon *daemon = led->leading->daemon;
    struct view *view;
    struct error error = {0};
    uint64_t begun_ns = daemon->loop.loop.now_ns(&daemon->loop);

    if (!leads(&daemon->keys, &daemon->node) || daemon->keys.away || led->leading->writer ||
        daemon->keys.mirror.revision < led->leading->written_revision ||
        view_job_rests(&daemon->keys.mirror, daemon->config->cluster, led->job))
        return;
    if (begun_ns < led->rests_until_ns) {
        wake_at(led, led->rests_until_ns);
        return;
    }
    if (!has_time(led->leading, led->job))
        return;
    int status = view_make(&daemon->keys.mirror, daemon->config->cluster, led->job, begun_ns,
                           daemon->config->failure_timeout_ns, &led->refused, &view, &error);
    if (status == -ENOMEM) {
        log_error("job %s: no memory to look at it", led->job);
        wake_at(led, begun_ns + RETRY_NS);
    } else if (status && status != -ENOENT) {
        say_unread(led, &error, begun_ns);
    }
    if (status)
        return;
    led->unread[0] = '\0';
    if (refuse_lost(led, view))
        wake_at(led, view->view.now_ns);
    else
        decide_in_turn(led, view);
    mark_damaged(led);
    view_free(view);
    uint64_t ended_ns = daemon->loop.loop.now_ns(&daemon->loop);
    led->rests_until_ns = ended_ns + rest_ns(ended_ns - begun_ns);
    time_share_spend(&led->leading->share, ended_ns - begun_ns, ended_ns);
}

static void on_timer(void *context)
{
    consider(context);
}

/* ---- adding and removing jobs ---- */

static void on_looked(void *context)
{
    daemon_wake(context);
}

static void led_free(struct led *led)
{
    struct daemon *daemon = led->leading->daemon;

    if (led->leading->writer == led)
        led->leading->writer = NULL;
    daemon->keys.kv->cancel(daemon->keys.kv->context, led->writing);
    daemon->keys.kv->cancel(daemon->keys.kv->context, led->marking);
    daemon->loop.loop.timer_remove(&daemon->loop, led->timer);
    folder_look_free(led->look);
    free(led);
}

static struct led *find_or_add(struct leading *leading, const char *job, int64_t created)
{
    struct daemon *daemon = leading->daemon;
    struct led *led;

    for (led = leading->jobs; led; led = led->next)
        if (!strcmp(led->job, job))
            return led;
    led = calloc(1, sizeof(*led));
    if (!led)
        return NULL;
    led->leading = leading;
    led->created = created;
    snprintf(led->job, sizeof(led->job), "%s", job);
    led->look = folder_look_new(&daemon->loop.loop, on_looked, daemon);
    if (!led->look ||
        daemon->loop.loop.timer_add(&daemon->loop, UINT64_MAX, on_timer, led, &led->timer)) {
        folder_look_free(led->look);
        free(led);
        return NULL;
    }
    led->next = leading->jobs;
    leading->jobs = led;
    return led;
}

static void forget_removed(struct leading *leading)
{
    struct daemon *daemon = leading->daemon;
    struct led **link = &leading->jobs;
    char key[KV_KEY_MAX];

    while (*link) {
        struct led *led = *link;
        const struct mirror_entry *spec = mirror_find(
            &daemon->keys.mirror, keys_job(key, daemon->config->cluster, led->job, "spec"));
        if (spec && spec->create_revision == led->created) {
            link = &led->next;
            continue;
        }
        *link = led->next;
        led_free(led);
    }
}

static void consider_job(struct leading *leading, const char *job, int64_t created)
{
    struct led *led = find_or_add(leading, job, created);

    if (led)
        consider(led);
    else
        log_error("no memory to lead job %s", job);
}

/* Consider the jobs whose names sort before @next, or the others. */
static void consider_part(struct leading *leading, const char *next, bool before)
{
    struct daemon *daemon = leading->daemon;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(&daemon->keys.mirror, keys_jobs(prefix, daemon->config->cluster), &entries);

    for (size_t i = 0; i < count; i++) {
        char job[NAME_SIZE], leaf[128];
        if (keys_match_job(entries[i].key, daemon->config->cluster, job, leaf) &&
            !strcmp(leaf, "spec") && (strcmp(job, next) < 0) == before)
            consider_job(leading, job, entries[i].create_revision);
    }
}

void leading_run(struct leading *leading)
{
    struct daemon *daemon = leading->daemon;
    char next[NAME_SIZE];

    forget_removed(leading);
    if (!leads(&daemon->keys, &daemon->node)) {
        download_stop(leading->download);
        leading->written_revision = 0; /* from another term, perhaps another etcd cluster */
        return;
    }
    memcpy(next, leading->next, sizeof(next));
    leading->next[0] = '\0';
    consider_part(leading, next, false);
    consider_part(leading, next, true);
}

static void on_resume(void *context)
{
    const struct leading *leading = context;

    daemon_wake(leading->daemon);
}

int leading_new(struct daemon *daemon, struct leading **ret_leading)
{
    struct leading *leading = calloc(1, sizeof(*leading));

    if (!leading)
        return -ENOMEM;
    leading->daemon = daemon;
    int status = timer_init(&leading->resume, &daemon->loop.loop, on_resume, leading);
    if (!status)
        status = download_new(daemon, &leading->download);
    if (status) {
        timer_done(&leading->resume);
        free(leading);
        return status;
    }
    *ret_leading = leading;
    return 0;
}

void leading_free(struct leading *leading)
{
    if (!leading)
        return;
    while (leading->jobs) {
        struct led *led = leading->jobs;
        leading->jobs = led->next;
        led_free(led);
    }
    download_free(leading->download);
    timer_done(&leading->resume);
    free(leading);
}
