/*
 * The state with which a generation starts: the source of it, its step, and the units and the
 * history that workers hand over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/job/job_text.h"
#include "elastic/step/step_record.h"

#define PLAN_MOVES_MAX (1u << 18)

enum plan_source {
    PLAN_SOURCE_FRESH,      /* initialize from the seed: step 0 */
    PLAN_SOURCE_MEMORY,     /* from workers that hold it, by moves */
    PLAN_SOURCE_CHECKPOINT, /* read restore_path */
};

struct plan_move {
    unsigned unit;
    unsigned from_rank, to_rank; /* ranks of this plan, donors included */
};

struct plan_start {
    enum plan_source source;
    uint64_t resume_step; /* committed steps at the start of the generation; of a planned switch: a
                             lower bound */
    bool disputed; /* rolls back because replicas held different state: output of the steps after
                      resume_step may be wrong */
    uint64_t last_dispute; /* the newest disputed generation, up to this one; 0: none. Files of
                              workers other than checkpoints are not used across it */
    char restore_path[JOB_PATH_SIZE]; /* PLAN_SOURCE_CHECKPOINT: the checkpoint's folder */
    char restore_sha256[65]; /* PLAN_SOURCE_CHECKPOINT: of the manifest, when its files are on the
                                copy nodes; "": the whole checkpoint is at restore_path */
    bool has_commit; /* survivors at HOLD(commit.step) first apply that step with `commit` */
    struct step_record commit;
    unsigned move_count;
    struct plan_move *moves;
    /* Metrics history is sent from from_rank (an old member) to to_rank on each node without it. */
    unsigned history_count;
    struct plan_move *histories; /* unit unused */
    /* Sums of gradients of a step in progress are sent from from_rank, a worker of the generation
     * before, to to_rank (elastic/recovery/sum_moves.h). Ascending by from_rank, then to_rank. */
    unsigned sums_count;
    struct plan_move *sums; /* unit unused */
};
