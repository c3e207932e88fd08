/*
 * Which checkpoint this node reads back next: decided from the cluster's keys and from what this
 * daemon has read already. Does nothing itself.
 *
 * Each recorded checkpoint is read once soon after it was written, and then again every
 * SCRUBBING_TERM_S for as long as it is kept. Of those that have not been read the newest and the
 * oldest come in turns: where checkpoints are written faster than they are read, the one that the
 * job would go on from is read, and so is one that is kept for long. The node that recorded it does
 * that, or whoever leads when that node is gone; with copies every node reads what lies on it.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "membership/kv/records.h"

#define SCRUBBING_TERM_S    (7 * 24 * 3600)
#define SCRUBBING_KNOWN_MAX 256 /* of more the oldest are looked at once more */

enum scrubbing_urgency { SCRUBBING_NOTHING, SCRUBBING_AGAIN, SCRUBBING_NEW };

struct scrubbing_known {
    char manifest_sha256[RECORD_DIGEST_SIZE];
    uint64_t verified_ns; /* Unix time; 0: not by anybody, as far as this daemon knows */
    uint64_t retry_at_ns; /* Unix time: not before */
    bool doubted;         /* it shares files with one that is damaged: no mark counts */
    bool damaged;         /* whoever found that out */
};

/* What this daemon remembers; all zero at first. */
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
    struct checkpoint_record record; /* the caller's to free */
    bool doubted;
    double
        seconds; /* that reading it may take: half of the time between two checkpoints, or less */
};

/** scrubbing_choose() - the most urgent checkpoint of @job; @ret_task is unchanged for
 * SCRUBBING_NOTHING */
enum scrubbing_urgency scrubbing_choose(const struct scrubbing_view *view, const char *job,
                                        struct scrubbing_task *ret_task) CHECK_RESULT;

/** scrubbing_learned() - it was verified at @verified_ns (0: it could not be) and is not to be read
 * before @retry_at_ns, both Unix time */
void scrubbing_learned(struct scrubbing_memory *memory, const char *manifest_sha256,
                       uint64_t verified_ns, uint64_t retry_at_ns);
/** scrubbing_doubt() - a checkpoint of @job is damaged: all others of it are read again */
void scrubbing_doubt(struct scrubbing_memory *memory, const struct mirror *mirror,
                     const char *cluster, const char *job);
/** scrubbing_notice() - the same, if records say so of one of which this daemon did not know it */
void scrubbing_notice(struct scrubbing_memory *memory, const struct mirror *mirror,
                      const char *cluster, const char *job);
