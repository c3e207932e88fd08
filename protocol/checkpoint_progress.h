/*
 * The progress of one rank with the checkpoint begun last: its share, its node's copies, and on
 * rank 0 the commit.
 *
 * Every rank writes its share while training continues. When a commit or a vote
 * (protocol/checkpoint_vote.h) tells that the shares of all ranks are durable, rank 0 commits, and
 * with copies the keepers of the other nodes begin their part. A failed share is reported upwards
 * with the commits of steps: all ranks abandon the checkpoint, and training continues.
 *
 * All ranks begin a step, or none does. If each rank decided alone, ranks would skip different
 * steps, and a step that not all ranks have begun never becomes a checkpoint. So every rank reports
 * in a commit whether it is busy, and a rank that is not busy then stays so until the next commit.
 * With copies rank 0 is busy from the beginning of a step until the step is committed or has
 * failed.
 *
 * A state machine without I/O: worker/checkpoint/snapshot.c and the simulator do the named work and
 * report its end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The outcome of one piece of this rank's work for a checkpoint. */
enum checkpoint_outcome {
    CHECKPOINT_OUTCOME_DONE,
    CHECKPOINT_OUTCOME_FAILED,
    CHECKPOINT_OUTCOME_UNABLE, /* failed because of this node's disk, which other ranks may not have
                                */
};

/* The work to start when all shares are durable. */
enum checkpoint_work {
    CHECKPOINT_WORK_NONE,
    CHECKPOINT_WORK_COMMIT, /* on rank 0; with copies it does its node's part as well */
    CHECKPOINT_WORK_KEEP,   /* this rank makes its node's copies */
};

/* A boundary whose state is to be saved, on one rank. */
struct checkpoint_begin {
    uint64_t step, generation;
    unsigned rank;
    bool sits_out;   /* this rank writes nothing: others write its share */
    bool has_copies; /* nodes keep copies, and this rank does not sit out */
    bool is_keeper;  /* of its node's copies */
};

/* All zero at first. A step of 0 means none. */
struct checkpoint_progress {
    struct checkpoint_begin begun; /* step 0: nothing in this generation */
    bool writes;  /* a share is in flight: of this checkpoint, or of one of an earlier generation */
    bool keeps;   /* the node's copies are in flight */
    bool commits; /* a commit is in flight: of this checkpoint or, without copies, of an earlier
                     one */
    uint64_t durable, failed, unable;         /* this rank's: outcomes of the newest step */
    uint64_t abandoned;                       /* the step whose files are removed */
    uint64_t kept;                            /* the step whose copies were begun here */
    uint64_t committed, committed_generation; /* on rank 0; another generation's commit of the same
                                                 step may not be recorded */
};

/** checkpoint_progress_may_begin() - return whether no work is in flight that another checkpoint
 * must wait for; if a rank is not busy, all ranks agree */
bool checkpoint_progress_may_begin(const struct checkpoint_progress *progress);
/** checkpoint_progress_begin() - begin a checkpoint; if this rank writes, its share is in flight
 */
void checkpoint_progress_begin(struct checkpoint_progress *progress,
                               const struct checkpoint_begin *begin);
/** checkpoint_progress_is_busy() - return whether this rank cannot begin another one */
bool checkpoint_progress_is_busy(const struct checkpoint_progress *progress);
/** checkpoint_progress_is_settled() - return whether nothing of this rank is in flight */
bool checkpoint_progress_is_settled(const struct checkpoint_progress *progress);
/** checkpoint_progress_is_unable() - return whether the failed step failed because of this node's
 * disk */
bool checkpoint_progress_is_unable(const struct checkpoint_progress *progress);
/** checkpoint_progress_is_abandoned() - return whether the checkpoint begun last is given up */
bool checkpoint_progress_is_abandoned(const struct checkpoint_progress *progress);

/** checkpoint_progress_share_ended() - note that the share in flight has ended. Return: whether to
 * report a failure: not if the checkpoint is abandoned, and its files are gone */
bool checkpoint_progress_share_ended(struct checkpoint_progress *progress,
                                     enum checkpoint_outcome outcome);
/** checkpoint_progress_copies_ended() - note that the copies in flight have ended */
void checkpoint_progress_copies_ended(struct checkpoint_progress *progress,
                                      enum checkpoint_outcome outcome);
/** checkpoint_progress_commit_ended() - note that the commit in flight, of @step in @generation,
 * has ended */
void checkpoint_progress_commit_ended(struct checkpoint_progress *progress, uint64_t step,
                                      uint64_t generation, bool is_done);

/** checkpoint_progress_start() - note that the shares of @durable_step are durable on all ranks,
 * and return the work that this rank is to start, which counts as in flight; none if it was started
 * before */
enum checkpoint_work checkpoint_progress_start(struct checkpoint_progress *progress,
                                               uint64_t durable_step);
/** checkpoint_progress_not_started() - note that the work could not start: without copies it is
 * tried again; with copies other nodes wait for this one, and the step fails */
void checkpoint_progress_not_started(struct checkpoint_progress *progress,
                                     enum checkpoint_work work);

/** checkpoint_progress_abandon() - note that the share of @failed_step failed on some rank. Return:
 * whether this rank removes files: not those of another step, not twice, and only on rank 0 if all
 * ranks share one folder */
bool checkpoint_progress_abandon(struct checkpoint_progress *progress, uint64_t failed_step);
/** checkpoint_progress_end_copies() - give up the node's copies */
void checkpoint_progress_end_copies(struct checkpoint_progress *progress);
/** checkpoint_progress_forget() - forget the checkpoint begun last: a new generation begins, or the
 * same boundary is to be written again. Work in flight ends by itself */
void checkpoint_progress_forget(struct checkpoint_progress *progress);
