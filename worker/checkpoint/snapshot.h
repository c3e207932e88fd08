/*
 * Checkpoints as the step loop sees them: begin one at a step boundary, keep computing, let go of
 * the parameters before the optimizer changes them, and, on rank 0, commit when all shares are
 * durable.
 *
 * A share's description (a manifest part) is written beside its data; rank 0 learns through the
 * commit exchange that every rank has come so far, reads the parts, and commits from a thread of
 * its own, so no step waits for it. A share that fails is said upwards the same way: the checkpoint
 * is given up, training goes on, and an alarm is raised. A checkpoint that is still being written
 * when the layout changes is given up as well; the next one follows its interval.
 */
#pragma once

#include "elastic/messages/control.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct snapshot;

struct snapshot_options {
    const char *folder;  /* the job's checkpoint folder */
    const char *node;    /* this one */
    uint64_t timeout_ns; /* of other nodes' silence */
};

/** snapshot_new() - takes the staging arena now, 64 MiB, or less where the state is small (-ENOMEM)
 */
int snapshot_new(const struct state *state, const struct snapshot_options *options,
                 struct snapshot **ret_snapshot, struct error *error) CHECK_RESULT;
void snapshot_free(struct snapshot *snapshot); /* waits for a commit that is under way, but for none
                                                  that needs other nodes */

/** snapshot_try() - whether checkpoints of this state can be written, as far as can be told before
 * there is one (checkpoint/write/writable.h) */
int snapshot_try(const struct snapshot *snapshot, struct error *error) CHECK_RESULT;

/** snapshot_keep_history() - rank 0: commits take along the lines of this node's metrics file, up
 * to their step; "": none */
void snapshot_keep_history(struct snapshot *snapshot, const char *metrics_path);

/** snapshot_keep_restored() - commits take along what the checkpoint at @path has beside its model
 * (worker/checkpoint/source_files.h), where the job's own folder has none yet */
void snapshot_keep_restored(struct snapshot *snapshot, const char *path);

/** snapshot_reset() - a new generation: what was under way is given up */
void snapshot_reset(struct snapshot *snapshot);

/** snapshot_give_up_copies() - copies of a checkpoint before @step, which are still under way, are
 * given up: there is no later step to wait for them in */
void snapshot_give_up_copies(struct snapshot *snapshot, uint64_t step);

/** snapshot_reserve() - of a new generation, whose units are held: pinned memory for this rank's
 * share, where the state lies in memory of a device; -ENOMEM with the number */
int snapshot_reserve(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                     struct error *error) CHECK_RESULT;

/**
 * snapshot_begin() - start writing this rank's share of the state at applied_step
 * @left_out: (plan->worker_count,), the same at all ranks: who writes nothing, as if it had done so
 * already (elastic/copies/checkpoint_writers.h); copied. NULL: nobody
 * Return: 0; -EBUSY (the one before is still being written: this one is left out); others with
 * @error, and the step counts as failed: the checkpoint before it is not committed any more either
 */
int snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                   const bool *left_out, struct error *error) CHECK_RESULT;

/** snapshot_release() - wait until the parameters may change; before the optimizer step and before
 * dropping units */
void snapshot_release(struct snapshot *snapshot);

/**
 * snapshot_poll() - see how this rank's share stands
 * @deadline_ns: monotonic; 0: do not wait
 * @error: set (with the code returned) when the share has failed since the last call
 */
int snapshot_poll(struct snapshot *snapshot, uint64_t deadline_ns,
                  struct error *error) CHECK_RESULT;
uint64_t snapshot_durable_step(
    const struct snapshot *snapshot); /* this rank's, in this generation */
uint64_t snapshot_failed_step(const struct snapshot *snapshot);
/** snapshot_unable() - whether that step failed because of this node's disk */
bool snapshot_unable(const struct snapshot *snapshot);
/** snapshot_sits_out() - whether the step begun last is one that others write for this rank */
bool snapshot_sits_out(const struct snapshot *snapshot);
/**
 * snapshot_busy() - whether snapshot_begin() is too early here; all ranks begin a step, or none
 * does
 *
 * Each rank by itself would leave out other steps than the rest, and steps that not all have begun
 * become no checkpoint. So all say it in a commit, and whoever is not busy then is not before the
 * next one: with copies rank 0 is, from the beginning of a step until it is committed or has
 * failed.
 */
bool snapshot_busy(const struct snapshot *snapshot);
/** snapshot_settled() - nothing of this rank's part is under way: how it went is known */
bool snapshot_settled(const struct snapshot *snapshot);

/** snapshot_forget() - what was begun last has failed somewhere and is gone: as if it had never
 * been begun, so that the same boundary can be written again */
void snapshot_forget(struct snapshot *snapshot);
/** snapshot_forget_abandoned() - the same, if it has been given up everywhere already */
void snapshot_forget_abandoned(struct snapshot *snapshot);

/** snapshot_commit() - shares of @durable_step are durable on all ranks: if that is news, rank 0
 * starts the commit, and with copies the other nodes' keepers their part
 * (worker/checkpoint/copy_keeper.h). One that fails takes all shares with it: the step counts as
 * failed then. */
void snapshot_commit(struct snapshot *snapshot, uint64_t durable_step);

/** snapshot_abandon() - some rank's share of @failed_step failed: rank 0, with copies everybody,
 * removes what the others have written of it. A share that then fails, too, does so in silence.
 * False when that is no news */
bool snapshot_abandon(struct snapshot *snapshot, uint64_t failed_step);

/**
 * snapshot_take_result() - rank 0: the outcome of a commit
 * Return: 1: *ret_checkpoint is on disk, to be recorded, and the caller's to free; 0: nothing new;
 * negative: it failed, see
 * @error
 */
int snapshot_take_result(struct snapshot *snapshot, struct control_checkpoint *ret_checkpoint,
                         struct error *error) CHECK_RESULT;

/** snapshot_warning() - what an operator should know of the commit told last: fewer copies than
 * asked for, or a node that could not write; else empty */
const char *snapshot_warning(const struct snapshot *snapshot);

/**
 * snapshot_retain() - rank 0: @recorded is, and those before its `kept_from`, but for one, are
 * not any more, so their files may go; in the background
 *
 * Only now: files that went before their record would leave a record of nothing. Left out while the
 * last call is still at work, the next one makes up for it.
 */
void snapshot_retain(struct snapshot *snapshot, const struct control_checkpoint *recorded);
