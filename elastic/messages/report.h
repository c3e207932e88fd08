/* A node's report about its workers of one job, to the leader through etcd. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "elastic/copies/member.h"
#include "elastic/step/step_record.h"

#define REPORT_WORKERS_MAX   MEMBER_SLOTS_MAX /* of one node */
#define REPORT_LOST_MAX      64
#define REPORT_UNREACHED_MAX 64
#define REPORT_TEXT_SIZE     256
#define REPORT_EXTRAS_MAX    16
#define REPORT_RANGES_MAX    (2 + REPORT_EXTRAS_MAX) /* of units in one worker's memory */

/* `text` of CAUSE_STARTS from a worker that waits for another worker to read */
#define REPORT_WAITS_FOR_READER "waits for another worker of its node to read the training data"

enum worker_phase {
    WORKER_STARTING, /* spawned, has not said hello */
    WORKER_PREPARED, /* has a plan and everything that it needs to join it */
    WORKER_RUNNING,  /* trains in `generation` */
    WORKER_STUCK,    /* cannot continue in `generation`: keeps its state and waits for the next
                        plan */
    WORKER_FINISHED, /* all steps committed, final checkpoint written */
    WORKER_LEFT,     /* handed over, exited on purpose */
    WORKER_DEAD,     /* process gone */
    WORKER_REFUSED,  /* the job itself cannot run on this node (its data is missing, say): `text`
                        says why */
    WORKER_BAD, /* died repeatedly, or reports that it computes wrongly or does not have its firnd's
                   version: the slot is out of service, `text` says why */
};

/* The reason why a worker does not continue, as far as the leader or an agent decides by it. */
enum worker_cause {
    CAUSE_NONE,            /* peers were lost, another plan arrived, or the phase says enough */
    CAUSE_CHECKPOINT_LOST, /* stuck: the checkpoint of its plan is damaged or incomplete */
    CAUSE_CHECKPOINT_AWAY, /* stuck: nodes that may have a part of it do not answer, or a disk or
                              file server fails to read it */
    CAUSE_STATE_DISPUTED,  /* stuck: replicas of its generation held different parameters or
                              moments, so no state of that generation counts */
    CAUSE_DIVERGED,        /* refused: a step's loss or gradient is not finite, on every layout, so
                              the job is over */
    CAUSE_CRASHED,         /* bad: its processes died; the slot is tried again later */
    CAUSE_STARTS,          /* starting, with progress: `text` describes it */
    CAUSE_LEFT_OUT,        /* stuck: has obeyed a plan after a failure that leaves it out, and
                              keeps its state aside */
};

/* Units besides the worker's stage: copies of other stages, or leftovers of an earlier
 * generation. */
struct report_extra {
    unsigned first, count;
    bool shadows; /* follows its stage step by step: `holds` covers it too */
};

struct worker_report {
    unsigned slot;
    uint64_t instance; /* process identity, random */
    enum worker_phase phase;
    uint64_t generation; /* in which the worker is or was; 0: none */
    bool root;           /* rank 0 of `generation`, which begins the next one */
    /* State in its memory: held_unit_count 0 means none. */
    uint64_t applied_step;
    unsigned held_first_unit, held_unit_count; /* two ranges can be held after a broken switch: */
    unsigned old_first_unit, old_unit_count;   /* units of the previous generation, same
                                                  applied_step */
    unsigned extra_count;                      /* 0 unless held_unit_count > 0 */
    struct report_extra extras[REPORT_EXTRAS_MAX]; /* at the same applied_step */
    bool holds; /* HOLD(applied_step + 1): gradients of the held range and of shadows */
    enum worker_cause cause;
    unsigned links; /* its link protocol; 0: unknown, from an older program */
    /* node_report_decode() writes the members from here on only if they are not zero. */
    struct step_record record; /* step 0: none; of applied_step + 1 (partial) if holds, else of
                                  applied_step (complete) */
    unsigned frozen_layers;
    unsigned lost_count; /* peers that it lost, as "node/slot" */
    char lost[REPORT_LOST_MAX][NAME_SIZE + 8];
    /* Ranks of `generation` whose hosts gave no sign of life while its links were made, or its
     * checkpoint was read. */
    unsigned unreached_count;
    unsigned unreached[REPORT_UNREACHED_MAX];
    char text[REPORT_TEXT_SIZE];
};

/** worker_report_entered() - return whether the worker is or was in a generation */
static inline bool worker_report_entered(const struct worker_report *report)
{
    return report->generation != 0;
}

/** worker_report_is_fresh() - return whether the process has no state yet */
static inline bool worker_report_is_fresh(const struct worker_report *report)
{
    return report->phase == WORKER_STARTING ||
           (report->phase == WORKER_PREPARED && report->held_unit_count == 0);
}

struct node_report {
    char node[NAME_SIZE];
    uint64_t generation;  /* reports/<gen>/: the plan in force that the report is about */
    uint64_t incarnation; /* of the firnd that wrote it; 0: an older program */
    unsigned worker_count;
    struct worker_report workers[REPORT_WORKERS_MAX];
};

/** worker_phase_word() - return a word like "running", for people and for JSON */
const char *worker_phase_word(enum worker_phase phase);

/**
 * worker_report_copy() - copy into a zeroed report
 *
 * Writes only the used part of the arrays: an untouched page of zeros takes no memory, and a
 * thousand reports are 26 MB, most of it zeros.
 */
void worker_report_copy(const struct worker_report *from, struct worker_report *to);

/** worker_report_encode(), node_report_encode() - return a new reference; NULL: no memory */
json_t *worker_report_encode(const struct worker_report *report);
json_t *node_report_encode(const struct node_report *report);

/**
 * worker_report_decode(), node_report_decode() - decode a report; -EINVAL: @error names the key
 *
 * Unit ranges lie within STEP_RECORD_UNITS_MAX. A record, if any, is of applied_step + 1 if the
 * worker holds that step, else of applied_step and complete. An unknown cause, of a newer program,
 * counts as none. A node's slots are distinct.
 *
 * A node's @ret_report must be zeroed. Only its first worker_count workers are written, and of
 * these no empty arrays: untouched memory takes no pages.
 */
int worker_report_decode(const json_t *tree, struct worker_report *ret_report,
                         struct error *error) CHECK_RESULT;
int node_report_decode(const json_t *tree, struct node_report *ret_report,
                       struct error *error) CHECK_RESULT;
