/*
 * Choose the checkpoint that this node reads back next. The inputs are the cluster's keys and this
 * daemon's own readings. No side effects.
 *
 * Each recorded checkpoint is read once soon after it is written, and then every SCRUBBING_TERM_S
 * for as long as it is kept. Among unread checkpoints, the newest and the oldest alternate. If
 * checkpoints are written faster than they are read, this still covers the checkpoint from which
 * the job would resume and the checkpoints that are kept for long. A checkpoint is read by the node
 * that recorded it, or by the leader if that node is gone. With copies, every node reads its own
 * files.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "membership/kv/records.h"

#define SCRUBBING_TERM_S    (7 * 24 * 3600)
#define SCRUBBING_KNOWN_MAX 256 /* beyond this the oldest entries are forgotten and read again */

enum scrubbing_urgency { SCRUBBING_NOTHING, SCRUBBING_AGAIN, SCRUBBING_NEW };

struct scrubbing_known {
    char manifest_sha256[RECORD_DIGEST_SIZE];
    uint64_t verified_ns; /* Unix time; 0: not verified, as far as this daemon knows */
    uint64_t retry_at_ns; /* Unix time: no retry before */
    bool doubted;         /* shares files with a damaged checkpoint: ignore its mark */
    bool damaged;         /* found by any node */
};

/* This daemon's memory; all zero at first. */
struct scrubbing_memory {
    struct scrubbing_known list[SCRUBBING_KNOWN_MAX];
    unsigned count, next;
};

struct scrubbing_view {
    const struct mirror *mirror;
    const char *cluster, *node;
    bool leads, oldest_first;
    uint64_t unix_ns;
    const struct scrubbing_memory *memory;
};

struct scrubbing_task {
    struct checkpoint_record record; /* the caller frees it */
    bool doubted;
    double seconds; /* target duration of the reading: half of the checkpoint interval, or less */
};

/** scrubbing_choose() - choose the most urgent checkpoint of @job; @ret_task is unchanged for
 * SCRUBBING_NOTHING */
enum scrubbing_urgency scrubbing_choose(const struct scrubbing_view *view, const char *job,
                                        struct scrubbing_task *ret_task) CHECK_RESULT;

/** scrubbing_learned() - note that the checkpoint was verified at @verified_ns (0: not
 * verifiable) and is not to be read before @retry_at_ns, both Unix time */
void scrubbing_learned(struct scrubbing_memory *memory, const char *manifest_sha256,
                       uint64_t verified_ns, uint64_t retry_at_ns);
/** scrubbing_doubt() - note that a checkpoint of @job is damaged: all its other checkpoints are
 * read again */
void scrubbing_doubt(struct scrubbing_memory *memory, const struct mirror *mirror,
                     const char *cluster, const char *job);
/** scrubbing_notice() - call scrubbing_doubt() if records show damage that this daemon did not
 * know */
void scrubbing_notice(struct scrubbing_memory *memory, const struct mirror *mirror,
                      const char *cluster, const char *job);
