/*
 * Checkpoints for the step loop: begin one at a step boundary, continue computing, release the
 * parameters before the optimizer changes them, and, on rank 0, commit when all shares are durable.
 *
 * A share's description (a manifest part) is written beside its data. Rank 0 learns from a step
 * commit, or a vote within the step, when every share is durable, reads the parts, and commits from
 * a thread of its own, so no step waits for the commit. A failed share is reported upwards the same
 * way: the checkpoint is abandoned, training continues, and an alarm is raised. A checkpoint that
 * is still being written when the layout changes is abandoned as well; the next generation writes
 * one instead (protocol/checkpoint_calendar.h).
 */
#pragma once

#include "elastic/messages/control.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct snapshot;

struct snapshot_options {
    const char *folder;  /* the job's checkpoint folder */
    const char *node;    /* of this worker */
    uint64_t timeout_ns; /* of a node that does not answer */
};

/** snapshot_new() - create, with the staging arena: 64 MiB, less for a small state (-ENOMEM) */
int snapshot_new(const struct state *state, const struct snapshot_options *options,
                 struct snapshot **ret_snapshot, struct error *error) CHECK_RESULT;
void snapshot_free(struct snapshot *snapshot); /* waits for a commit in flight, unless that
                                                  needs other nodes */

/** snapshot_try() - check, as far as possible before the first checkpoint, that checkpoints of this
 * state can be written (checkpoint/write/writable.h) */
int snapshot_try(const struct snapshot *snapshot, struct error *error) CHECK_RESULT;

/** snapshot_keep_history() - on rank 0: commits save the lines of this node's metrics file up to
 * their step; "": none */
void snapshot_keep_history(struct snapshot *snapshot, const char *metrics_path);

/** snapshot_keep_restored() - commits take the files beside the model from the checkpoint at @path
 * (worker/checkpoint/source_files.h) while the job's own folder has none */
void snapshot_keep_restored(struct snapshot *snapshot, const char *path);

/** snapshot_reset() - begin a new generation: abandon checkpoints in flight and write no more of
 * them */
void snapshot_reset(struct snapshot *snapshot);

/** snapshot_sweep() - on rank 0, in the background: remove part folders that generations before
 * @generation left half written; does nothing with copies, because each firnd then does it */
void snapshot_sweep(struct snapshot *snapshot, uint64_t generation);

/** snapshot_give_up_copies() - abandon copies in flight of a checkpoint before @step: there is no
 * later step in which to wait for them */
void snapshot_give_up_copies(struct snapshot *snapshot, uint64_t step);

/** snapshot_reserve() - for a new generation, whose units are held: allocate pinned memory for this
 * rank's share if the state is in device memory; -ENOMEM with the number */
int snapshot_reserve(struct snapshot *snapshot, const struct plan_layout *layout, unsigned rank,
                     struct error *error) CHECK_RESULT;

/**
 * snapshot_begin() - start writing this rank's share of the state at applied_step
 * @left_out: (plan->worker_count,), the same at all ranks: ranks that write nothing, and count as
 * durable (elastic/copies/checkpoint_writers.h); copied. NULL: none
 *
 * Return: 0; -EBUSY (the previous checkpoint is still being written: this one is skipped); others
 * with @error, and the step counts as failed: the previous checkpoint is no longer committed either
 */
int snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                   const bool *left_out, struct error *error) CHECK_RESULT;

/** snapshot_release() - wait until the parameters may change; call it before the optimizer step and
 * before dropping units */
void snapshot_release(struct snapshot *snapshot);
/** snapshot_release_until() - as snapshot_release(), until @deadline_ns, monotonic, at most.
 * Return: true if the parameters may change */
bool snapshot_release_until(struct snapshot *snapshot, uint64_t deadline_ns);
/** snapshot_give_up() - stop writing a share that the parameters wait for; the share fails */
void snapshot_give_up(struct snapshot *snapshot);

/**
 * snapshot_poll() - check the progress of this rank's share
 * @deadline_ns: monotonic; 0: do not wait
 * @error: set (with the code returned) when the share has failed since the last call
 */
int snapshot_poll(struct snapshot *snapshot, uint64_t deadline_ns,
                  struct error *error) CHECK_RESULT;
uint64_t snapshot_durable_step(
    const struct snapshot *snapshot); /* of this rank, in this generation */
uint64_t snapshot_failed_step(const struct snapshot *snapshot);
/** snapshot_unable() - true if the failed step failed because of this node's disk */
bool snapshot_unable(const struct snapshot *snapshot);
/** snapshot_sits_out() - true if this rank is left out of the step begun last */
bool snapshot_sits_out(const struct snapshot *snapshot);
/**
 * snapshot_busy() - true if this rank cannot begin a checkpoint yet
 *
 * All ranks begin a step, or none does. If each rank decided alone, ranks would skip different
 * steps, and a step that not all ranks have begun never becomes a checkpoint. So every rank reports
 * in a commit whether it is busy, and a rank that is not busy then stays so until the next commit.
 * With copies rank 0 is busy from the beginning of a step until the step is committed or has
 * failed.
 */
bool snapshot_busy(const struct snapshot *snapshot);
/** snapshot_is_committing() - true if a commit is in flight here */
bool snapshot_is_committing(const struct snapshot *snapshot);
/** snapshot_has_committed() - true if the boundary at @step was committed in @generation; on rank 0
 */
bool snapshot_has_committed(const struct snapshot *snapshot, uint64_t step, uint64_t generation);
/** snapshot_settled() - true if no part of this rank is in flight: the outcome is known */
bool snapshot_settled(const struct snapshot *snapshot);

/** snapshot_forget() - forget the step begun last, which has failed on some rank and is removed, so
 * that the same boundary can be written again */
void snapshot_forget(struct snapshot *snapshot);
/** snapshot_forget_abandoned() - call snapshot_forget() if that step is abandoned */
void snapshot_forget_abandoned(struct snapshot *snapshot);

/** snapshot_commit() - commit @durable_step, whose shares are durable on all ranks: if that is new,
 * rank 0 starts the commit, and with copies the other nodes' keepers start their part
 * (worker/checkpoint/copy_keeper.h). If the start fails the step counts as failed. */
void snapshot_commit(struct snapshot *snapshot, uint64_t durable_step);

/** snapshot_all_told() - a commit has told all ranks that the shares of @durable_step are durable
 * (checkpoint_commit_keepers_told()); after snapshot_commit() */
void snapshot_all_told(struct snapshot *snapshot, uint64_t durable_step);

/** snapshot_abandon() - abandon @failed_step, of which some rank's share failed: rank 0, with
 * copies every rank, removes the files written so far. Only the first failed share of a checkpoint
 * is reported. False when there is nothing to remove here */
bool snapshot_abandon(struct snapshot *snapshot, uint64_t failed_step);

/**
 * snapshot_take_result() - on rank 0: return the outcome of a commit
 *
 * Return: 1: *ret_checkpoint is on disk, to be recorded, and freed by the caller; 0: nothing new;
 * negative: the commit failed, with @error
 */
int snapshot_take_result(struct snapshot *snapshot, struct control_checkpoint *ret_checkpoint,
                         struct error *error) CHECK_RESULT;

/** snapshot_warning() - return a warning for the operator about the last commit: fewer copies than
 * requested, or a node that could not write; else empty */
const char *snapshot_warning(const struct snapshot *snapshot);

/**
 * snapshot_retain() - on rank 0: remove old checkpoints, in the background; @recorded is in etcd,
 * with at most one checkpoint from before its `kept_from`
 *
 * Call it only then: removing files before their record would leave a record without a checkpoint.
 * The call does nothing while the last removal is still running; the next call catches up.
 */
void snapshot_retain(struct snapshot *snapshot, const struct control_checkpoint *recorded);
