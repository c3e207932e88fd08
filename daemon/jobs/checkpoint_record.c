#include "daemon/jobs/checkpoint_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size_words.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/errand.h"
#include "daemon/core/events.h"
#include "daemon/jobs/job_progress.h"
#include "daemon/jobs/mark_look.h"
#include "daemon/jobs/retention_rule.h"
#include "membership/kv/keys.h"

#define RETRY_NS (NS_PER_SECOND / 5)

void checkpoint_record_forget(struct job *job)
{
    job->daemon->keys.kv->cancel(job->daemon->keys.kv->context, job->record.request);
    job->record.request = NULL;
    control_checkpoint_done(&job->record.unrecorded);
}

/* Tell the worker on @slot the result for @checkpoint, and release the checkpoint. */
static void answer(struct job *job, unsigned slot, struct control_checkpoint *checkpoint,
                   bool committed)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    struct worker_process *process = job->workers.processes[slot];

    if (message && process) {
        message->type = CONTROL_CHECKPOINT;
        message->checkpoint = *checkpoint;
        message->checkpoint.shares = NULL; /* the worker has them already */
        message->committed = committed;
        worker_process_send(process, message);
    }
    control_checkpoint_done(checkpoint);
}

static void has_recorded(struct job *job)
{
    answer(job, job->record.slot, &job->record.unrecorded, true);
}

static void tell_recorded(struct job *job)
{
    const struct control_checkpoint *checkpoint = &job->record.unrecorded;
    struct event_facts facts = {.job = job->name,
                                .node = job->daemon->config->node,
                                .generation = checkpoint->generation,
                                .step = checkpoint->step,
                                .pause_seconds = -1};
    char text[256], size[SIZE_WORDS_SIZE];

    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " committed: %s in %.2f s, training stalled %.1f ms",
             checkpoint->step, size_words(checkpoint->size_bytes, size), checkpoint->write_seconds,
             checkpoint->stall_seconds * 1e3);
    events_append(job->folders.dir, &facts, "checkpoint", text);
    if (job->record.keeps_all)
        log_warning("job %s: older checkpoints are kept for now: %s cannot be read, or does not "
                    "answer in time",
                    job->name, job->folders.checkpoint_dir);
}

static void try_again(struct job *job, uint64_t pause_ns)
{
    const struct loop *loop = &job->daemon->loop.loop;

    if (loop->timer_set(loop->context, job->record.retry, loop->now_ns(loop->context) + pause_ns))
        log_error("job %s: a timer failed", job->name);
}

static void on_recorded(void *context, const struct kv_result *result)
{
    struct job *job = context;

    job->record.request = NULL;
    if (!result->status && result->succeeded) {
        job->record.step = MAX(job->record.step, job->record.unrecorded.step);
        tell_recorded(job);
        if (job->workers.progress[job->record.slot].step) /* the job may pause at this step */
            job_progress_write(job, job->record.slot);
        has_recorded(job);
    }
    /* Otherwise etcd is away, or its keys have changed and the mirror will show that soon:
     * retry. */
    if (job_record_waits(&job->record))
        try_again(job, RETRY_NS);
}

/* Return whether the generation that wrote the checkpoint is in force, or is about to end in a
 * planned switch. */
static bool is_current(const struct job *job)
{
    uint64_t generation = job->record.unrecorded.generation;

    return job->plans.plan &&
           (job->plans.plan->generation == generation ||
            (job->plans.plan->change.planned && job->plans.plan->follows == generation));
}

static_assert(RECORD_SHARES_SIZE >= COPIES_SHARES_SIZE, "a record has room for all places");

static char *record_text(const struct job *job, bool pinned)
{
    struct checkpoint_record record = {
        .step = job->record.unrecorded.step,
        .generation = job->record.unrecorded.generation,
        .size_bytes = job->record.unrecorded.size_bytes,
        .frozen_layers = job->record.unrecorded.frozen_layers,
        .stall_seconds = job->record.unrecorded.stall_seconds,
        .write_seconds = job->record.unrecorded.write_seconds,
        .unix_ns = clock_unix_ns(),
    };

    snprintf(record.path, sizeof(record.path), "%s", job->record.unrecorded.path);
    snprintf(record.manifest_sha256, sizeof(record.manifest_sha256), "%s",
             job->record.unrecorded.manifest_sha256);
    snprintf(record.node, sizeof(record.node), "%s", job->daemon->config->node);
    record.shares = job->record.unrecorded.shares; /* borrowed */
    record.pinned = pinned;
    return checkpoint_entry_text(&record);
}

/*
 * Delete expired records in the same transaction. Their files are deleted later, after the worker
 * has been told. Keys sort by step, so the newest are at the end.
 */
static size_t add_expired(struct job *job, const struct mirror_entry *entries, size_t count,
                          struct kv_operation *operations, size_t capacity)
{
    unsigned unproven = job->record.unrecorded.is_unproven; /* it does not count yet */
    struct retention_rule retention = {.below_step = job->record.unrecorded.step,
                                       .rule = {.keep = job->spec.checkpoint.keep + unproven},
                                       .marks_of = mark_look_of,
                                       .context = job->expiry.marks,
                                       .kept_from = job->record.unrecorded.step};

    /* the newest checkpoint: it stays */
    keep_reason(&retention.rule, mark_look_of(job->expiry.marks, job->record.unrecorded.path));
    size_t expired = retention_rule_choose(&retention, entries, count, operations, capacity);
    /* If more records may have expired than this transaction deletes, delete no files. */
    job->record.unrecorded.kept_from = expired == capacity ? 0 : retention.kept_from;
    job->record.unrecorded.spared_step = retention.spared_step;
    return expired;
}

/* A checkpoint that is written again stays pinned. */
static bool was_pinned(const struct mirror_entry *there)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};

    return checkpoint_entry_read(there, &record) && record.pinned;
}

/* Return whether the same checkpoint is recorded already, by an earlier run of this job. */
static bool is_recorded(const struct job_record *job_record, const struct mirror_entry *there)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};

    return checkpoint_entry_read(there, &record) && !record.damaged[0] &&
           !strcmp(record.manifest_sha256, job_record->unrecorded.manifest_sha256);
}

/*
 * Return whether the generation that took over has recorded a newer checkpoint: files that this one
 * needs may be deleted already. Newer steps recorded before that plan do not count: a job that went
 * back writes these steps again.
 */
static bool is_overtaken(const struct job *job, int64_t *ret_known_revision)
{
    char prefix[KV_KEY_MAX];
    const struct mirror_entry *entries;
    size_t count;

    keys_job(prefix, job->daemon->config->cluster, job->name, "checkpoints/");
    count = mirror_range(&job->daemon->keys.mirror, prefix, &entries);
    while (count-- > 0) {
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        if (entries[count].mod_revision <= job->plans.revision ||
            !checkpoint_entry_read(&entries[count], &record) ||
            record.step <= job->record.unrecorded.step)
            continue;
        if (!record.damaged[0])
            return true;
        /* A damage note written since then does not make the record newer. */
        *ret_known_revision = MAX(*ret_known_revision, entries[count].mod_revision);
    }
    return false;
}

static void refuse(struct job *job, unsigned slot, struct control_checkpoint *checkpoint,
                   const char *why)
{
    log_warning("job %s: the checkpoint of step %" PRIu64 " of generation %" PRIu64
                " is not recorded: %s",
                job->name, checkpoint->step, checkpoint->generation, why);
    answer(job, slot, checkpoint, false);
}

static void give_up(struct job *job, const char *why)
{
    refuse(job, job->record.slot, &job->record.unrecorded, why);
}

void checkpoint_record_sync(struct job *job)
{
    struct daemon *daemon = job->daemon;
    struct kv_operation operations[KV_TXN_MAX / 2];
    char key[KV_KEY_MAX], generation_key[KV_KEY_MAX], newer_key[KV_KEY_MAX], end_key[KV_KEY_MAX];
    char prefix[KV_KEY_MAX];
    const struct mirror_entry *entries;
    AUTO_FREE char *text = NULL;

    if (!job_record_waits(&job->record) || job->record.request)
        return;
    keys_checkpoint(key, daemon->config->cluster, job->name, job->record.unrecorded.step);
    const struct mirror_entry *there = mirror_find(&daemon->keys.mirror, key);
    if (is_recorded(&job->record, there)) {
        has_recorded(job);
        return;
    }
    if (!is_current(job)) {
        give_up(job, "its generation is over");
        return;
    }
    int64_t known_revision = job->plans.revision;
    if (is_overtaken(job, &known_revision)) {
        give_up(job, "the next generation has recorded a newer one");
        return;
    }
    keys_job(prefix, daemon->config->cluster, job->name, "checkpoints/");
    size_t entry_count = mirror_range(&daemon->keys.mirror, prefix, &entries);
    enum mark_look_state marks =
        mark_look_at(job->expiry.marks, entries, entry_count, job->record.unrecorded.path);
    if (marks == MARK_LOOK_RUNS) {
        try_again(job, ERRAND_PATIENCE_NS);
        return;
    }
    text = record_text(job, was_pinned(there));
    /* An existing record belongs to a checkpoint that was damaged or removed and is written again.
     * All keys that begin with "checkpoints/" sort before "checkpoints0". */
    const struct kv_compare compares[] = {
        {.key = key, .target = KV_MOD_REVISION, .value = there ? there->mod_revision : 0},
        {.key = keys_job(generation_key, daemon->config->cluster, job->name, "generation"),
         .target = KV_MOD_REVISION,
         .value = job->plans.revision},
        {.key = keys_checkpoint(newer_key, daemon->config->cluster, job->name,
                                job->record.unrecorded.step + 1),
         .target = KV_NOT_AFTER,
         .value = known_revision,
         .before = keys_job(end_key, daemon->config->cluster, job->name, "checkpoints0")},
    };
    operations[0] = (struct kv_operation){.type = KV_PUT, .key = key, .value = text};
    size_t count = 1;
    if (marks != MARK_LOOK_AWAY)
        count +=
            add_expired(job, entries, entry_count, operations + 1, ARRAY_COUNT(operations) - 1);
    else
        job->record.unrecorded.kept_from = job->record.unrecorded.spared_step = 0;
    job->record.keeps_all = marks == MARK_LOOK_AWAY;
    if (!text || daemon->keys.kv->txn(daemon->keys.kv->context, compares, ARRAY_COUNT(compares),
                                      operations, count, on_recorded, job, &job->record.request))
        log_error("job %s: the record of a checkpoint could not be sent; it is tried again",
                  job->name);
}

/* Answer both workers if two generations have a checkpoint: a worker that was stopped for a while
 * may send its checkpoint while one of a later generation is being recorded. */
void checkpoint_record_begin(struct job *job, unsigned slot, struct control_checkpoint *checkpoint)
{
    const struct control_checkpoint *waiting = &job->record.unrecorded;

    if (job_record_waits(&job->record) && checkpoint->generation < waiting->generation) {
        refuse(job, slot, checkpoint, "that of a later generation is being recorded");
        return;
    }
    if (job_record_waits(&job->record) && checkpoint->generation > waiting->generation)
        give_up(job, "a later generation has made one");
    checkpoint_record_forget(job);
    job->record.unrecorded = *checkpoint;
    *checkpoint = (struct control_checkpoint){0};
    job->record.slot = slot;
    checkpoint_record_sync(job);
}
