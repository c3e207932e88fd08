/*
 * A plan: one generation of one job. It has the reason of the change, the work of each rank, and
 * the source of the state.
 *
 * A plan with worker_count 0 ends the previous generation: every worker checkpoints at the switch
 * (when `planned`) and leaves. A job is paused and cancelled this way.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "elastic/plan/plan_change.h"
#include "elastic/plan/plan_checkpoints.h"
#include "elastic/plan/plan_hosts.h"
#include "elastic/plan/plan_layout.h"
#include "elastic/plan/plan_links.h"
#include "elastic/plan/plan_start.h"
#include "elastic/plan/plan_trial.h"

#define PLAN_NUMERICS_SIZE 128 /* numerics of a node: backend, library, processor */
#define PLAN_SLOW_MAX      16

/*
 * A slot that was found slower than its peers (elastic/leader/leader_slow.h), used by the plan or
 * not. Each plan carries the list over, so that the next leader has it.
 */
struct plan_slow {
    char node[NAME_SIZE];
    unsigned slot;
    uint64_t incarnation; /* of its firnd; a new incarnation resets the entry */
    double speed;         /* relative to its peers; 1: on probation */
    unsigned times;       /* number of times it was found slow, from 1 */
};

struct plan {
    char job[NAME_SIZE];
    uint64_t generation; /* from 1 */
    uint64_t follows;    /* generation in force when the plan was made; 0: none; of a planned
                            switch: the generation that it replaces */
    struct plan_change change;
    struct plan_layout layout;
    struct plan_start start;
    struct plan_checkpoints checkpoints;
    struct plan_links links;
    struct plan_hosts hosts;
    char numerics[PLAN_NUMERICS_SIZE]; /* of all its nodes; "": mixed or unknown */
    struct plan_trial trial;
    unsigned slow_count;
    struct plan_slow slow[PLAN_SLOW_MAX];
    unsigned shares; /* additional owners, by plan_share() */
};

/**
 * plan_free() - release one ownership, of plan_new() or plan_share(); the last one frees the plan;
 * NULL allowed. Plans are heap objects because of their arrays.
 */
void plan_free(struct plan *plan);
struct plan *plan_new(void); /* zeroed; NULL when out of memory */
/**
 * plan_share() - add an owner and return the same plan, which is read-only from now on. A copy of a
 * plan with a thousand workers is slower than any other operation on it.
 */
struct plan *plan_share(const struct plan *plan);
struct plan *plan_copy(const struct plan *plan);

/**
 * plan_check() - check every invariant that a plan must satisfy before use
 *
 * Ranges cover units and lanes without gap or overlap. No slot has two ranks. A shadow is a worker
 * of another stage on another node. A move goes to a worker that owns or shadows the unit, once
 * each, and comes from another rank. A commit is complete and is of the step from which the
 * generation resumes. Moves and commits occur only with PLAN_SOURCE_MEMORY.
 * Return: 0, or -EINVAL with the reason; -ENOMEM.
 */
int plan_check(const struct plan *plan, struct error *error) CHECK_RESULT;

/**
 * plan_encode() - encode for etcd and workers; new reference, NULL when out of memory; the workers
 * are packed (elastic/plan/plan_workers.h)
 */
json_t *plan_encode(const struct plan *plan);
/**
 * plan_describe() - encode for users and their programs: workers one by one, and without the link
 * key, which would let any program join the links
 */
json_t *plan_describe(const struct plan *plan);
/** plan_decode() - decode a plan with bounds and plan_check(); -EINVAL names the key; -ENOMEM */
int plan_decode(const json_t *tree, struct plan **ret_plan, struct error *error) CHECK_RESULT;

/* Return the word used in JSON and in messages: "failure", "memory". */
const char *plan_reason_word(enum plan_reason reason);
const char *plan_source_word(enum plan_source source);
const char *plan_recompute_word(enum plan_recompute recompute);

/**
 * plan_keeps_copies() - return whether the plan names nodes with a share and copies of others each;
 * otherwise its checkpoints are in one shared folder (copies 0)
 */
bool plan_keeps_copies(const struct plan *plan);

/** plan_revokes() - return whether @plan replaces the change to @generation, which no worker can
 * begin any more */
static inline bool plan_revokes(const struct plan *plan, uint64_t generation)
{
    return generation > 0 && generation >= plan->change.revokes_first &&
           generation <= plan->change.revokes_last;
}

/**
 * plan_peers() - list the ranks that @rank has links with, ascending: pipeline neighbours, the
 * other end of its replica when it is one end (a tied token table), the replicas of its stage, the
 * shadow of its stage, the workers of the stages that it shadows, its parent and children in the
 * commit tree, and where the generation @begins the two ends of its moves, histories and sums; a
 * donor is gone later
 * @ret_ranks: room for worker_count + donor_count
 */
unsigned plan_peers(const struct plan *plan, unsigned rank, bool begins, unsigned *ret_ranks);
