/*
 * The checkers: each checker knows one promise of the protocol and nothing of its implementation.
 * Checkers observe every event at the moment when it happens.
 */
#pragma once

#include "membership/kv/kv.h"
#include "sim/fault/sim_disk.h"

struct plan;
struct sim_fault;

/* The workers of one generation that have held each step: a commit needs all of them. */
struct sim_witness {
    uint64_t generation, step;
    uint64_t ranks; /* a bit each */
};

#define SIM_SEALED_MAX 64

/* The time when the parts of a checkpoint with copies were complete. */
struct sim_sealed {
    uint64_t step, generation, at_ns;
    uint64_t committed_step; /* of the job at that time */
};

#define SIM_PACE_MAX 40 /* generations in a minute */

/* The times of the newest generations. */
struct sim_pace {
    uint64_t at_ns[SIM_PACE_MAX];
    size_t count; /* all that ever were */
    bool rests;   /* the last generation has no workers: the job waits, or is over */
};

/* Since when the committing generation has not used slots that would help. */
struct sim_idle {
    uint64_t generation, since_ns, commits;
};

/* Since when nothing has changed that a layout depends on, and the changes of layout since. */
struct sim_settled {
    uint64_t causes; /* a digest */
    uint64_t since_ns, commits;
    unsigned changes;
};

/* Numbers for the summary of many histories. */
struct sim_counts {
    unsigned memory_plans, disk_plans;
    unsigned unfenced; /* commits of a generation that was replaced while out of reach */
};

/* The newest generation. */
struct sim_newest {
    uint64_t generation, at_ns; /* newest generation with a written plan, and the time of writing */
    uint64_t confirmed;         /* newest one with a round without a step among all its ranks */
};

struct sim_check {
    struct sim_unit history[SIM_STEPS_MAX + 1][SIM_UNITS]; /* of the undisturbed run */
    uint64_t record_digests[SIM_STEPS_MAX + 1];
    struct sim_witness witnesses[16]; /* by generation */
    uint64_t committed_step;          /* the newest that must not be lost */
    uint64_t committed_ever;
    uint64_t given_away;            /* the newest generation after a failure: older ones are over */
    uint64_t committing_generation; /* the newest that has committed a step */
    unsigned replicas;              /* of that generation */
    /* Of the newest committed generation: its nodes and those of its announced successor (a bit
     * each), its first commit, and whether both plans keep each unit on two nodes. */
    uint64_t nodes, first_commit_ns;
    bool doubled;
    uint64_t committed_ns;    /* when a step was committed last */
    uint64_t commits;         /* their number, repetitions included */
    uint64_t longest_wait_ns; /* for a commit, after all faults were over */
    uint64_t slots_out_ns;    /* when slots were last rightly out of service */
    struct sim_newest newest;
    uint64_t newest_record;
    bool records_changed;                     /* by the current transaction */
    uint64_t recorded_ns[SIM_STEPS_MAX + 1];  /* when a step's checkpoint was last recorded */
    uint64_t missed_ns[SIM_STEPS_MAX + 1];    /* when a worker found it lost */
    uint64_t unread_ns[SIM_STEPS_MAX + 1];    /* unreadable since then; 0: readable */
    uint64_t passed_ns[SIM_STEPS_MAX + 1];    /* when the job last went back to an earlier step */
    uint64_t lost_ns[SIM_NODES_MAX];          /* when a node's disk was lost */
    struct sim_sealed sealed[SIM_SEALED_MAX]; /* the oldest are overwritten */
    unsigned sealed_count;
    struct sim_sealed cannot; /* the newest checkpoint with a failed keeper, and when it failed */

    struct sim_witness begun[16]; /* by generation: the step that it begins from */
    /* By generation: workers that began their share of the newest checkpoint, and workers that left
     * it out. */
    struct sim_witness begins[16], leaves_out[16];
    /* By generation: the next one that rank 0 has announced, and after which step. */
    struct {
        uint64_t generation, step, next;
    } announced[16];
    struct sim_pace pace;
    struct sim_idle idle;
    struct sim_settled settled;
    struct sim_counts counts;
};

struct sim_check *sim_check_new(struct sim *sim);
/** sim_check_gradients() - Note that @worker has the reduced gradients of @unit for @step */
void sim_check_gradients(struct sim_worker *worker, unsigned unit, uint64_t step);
/** sim_check_sums() - Check that a worker that continues with the sums of a step in progress has
 * all sums that it has asked for */
void sim_check_sums(const struct sim_worker *worker);
/** Note that a worker now holds the reduced gradients of applied_step + 1 */
void sim_check_hold(struct sim *sim, struct sim_worker *worker);
/** Check a commit of rank 0 of @plan; @next: the generation to begin after this step, or 0 */
void sim_check_commit(struct sim *sim, const struct plan *plan, const struct sim_record *record,
                      uint64_t next);
/** Check that a worker was right to apply a step to @unit */
void sim_check_apply(struct sim *sim, struct sim_worker *worker, unsigned unit);
/** Check a worker that is about to leave its generation for a planned generation */
/** sim_check_announced() - Note that rank 0 has decided that @generation ends for @next: with the
 * commit of @step, or within the step that follows */
void sim_check_announced(struct sim *sim, uint64_t generation, uint64_t step, uint64_t next);
void sim_check_switch(struct sim *sim, const struct sim_worker *worker, const struct plan *next);
/** Check a worker's report: the state that it must have kept exists, and its claims are true */
void sim_check_report(struct sim *sim, const struct sim_worker *worker,
                      const struct worker_report *report);
/** Note that a worker was to read the checkpoint of @step and found it lost */
void sim_check_missed(struct sim *sim, uint64_t step);
/** Return whether the recorded checkpoint of @step is useless: found lost, or tried in vain for so
 * long that it may be given up */
bool sim_check_is_missed(const struct sim *sim, uint64_t step);
/** sim_check_confirmed() - Note that rank 0 of @plan has heard from all ranks, without a step */
void sim_check_confirmed(struct sim *sim, const struct plan *plan);
/** sim_check_gives_away() - Check that @worker drops the units that its generation has given to
 * other workers only after a round without a step */
void sim_check_gives_away(struct sim_worker *worker);
/** Note that the plan lets @worker begin anew: the worker need not keep anything */
void sim_check_forget(struct sim_worker *worker);
/** Check that @worker's mesh may accept a message, or a connection, of @generation */
void sim_check_frame(struct sim *sim, const struct sim_worker *worker, uint64_t generation);
/** Check at the start of a generation that all units of @worker are at one step, with the right
 * bits
 */
void sim_check_begin(struct sim *sim, const struct sim_worker *worker);
/** Check that all ranks agree to begin, or to leave out, their shares of the due checkpoint */
void sim_check_begun(struct sim *sim, const struct sim_worker *worker, bool begins);
/** Check a checkpoint that appears on disk */
void sim_check_checkpoint(struct sim *sim, const struct sim_checkpoint *checkpoint);
/** Note that all parts of @step's checkpoint are complete: from now on losses count */
void sim_check_sealed(struct sim *sim, uint64_t step, uint64_t generation);
/** Note that a keeper cannot do its part of a checkpoint */
void sim_check_cannot(struct sim *sim, uint64_t step, uint64_t generation);
/** sim_check_given_up() - Note that rank 0 knows of the failed keeper and removes this attempt */
void sim_check_given_up(struct sim *sim, uint64_t step, uint64_t generation);
/** Check that rank 0, @worker, does not wait long for keepers of this checkpoint if a keeper is
 * unable */
void sim_check_awaited(struct sim *sim, const struct sim_worker *worker, uint64_t step,
                       uint64_t generation);
/** Note the loss of a node's disk, or of a checkpoint on it */
void sim_check_disk_lost(struct sim *sim, unsigned node);
/** Check after a change of disks or records: every checkpoint is on as many nodes as its record
 * says, less the nodes lost since */
void sim_check_copies(struct sim *sim);
/**
 * sim_check_recorded_by() - Return the generation whose checkpoint of @step is recorded; 0: none
 */
uint64_t sim_check_recorded_by(const struct sim *sim, uint64_t step);
/** sim_check_newest_record() - Return the step of the newest record in the store; 0: none */
uint64_t sim_check_newest_record(const struct sim *sim);
/** Check a transaction of @client, sent at @sent_ns, that is about to be carried out */
void sim_check_write(struct sim *sim, uint64_t client, uint64_t sent_ns,
                     const struct kv_operation *operation);
/** Check that the peers of a node that lost its power notice */
void sim_check_node_died(struct sim *sim);
/** Check that training continues during an outage of the store, if nothing else happens */
void sim_check_outage_begins(struct sim *sim);
void sim_check_outage_ends(struct sim *sim);
/** Check that a planned change has not waited too long for a node whose firnd is gone */
void sim_check_held_up(struct sim *sim, const struct sim_fault *fault);
/** sim_check_idle() - Check that slots that would shorten the step are used; after all faults */
void sim_check_idle(struct sim *sim);
/** sim_check_is_ordinary() - Return whether the speed of slots alone decides the layout, without
 * nodes of another version, copies for shadows, judged slots, or nodes that are believed to be cut
 */
bool sim_check_is_ordinary(const struct sim *sim);
/** sim_check_causes() - Note a change of anything that a layout depends on; after all faults */
void sim_check_causes(struct sim *sim);
/** sim_check_settled() - Check that @plan, which is about to be in force, keeps a settled layout */
void sim_check_settled(struct sim *sim, const struct plan *plan);
/** sim_check_late() - Check, when rank 0 of @plan commits @step after a long step, that a
 * checkpoint of the step before is recorded */
void sim_check_late(struct sim *sim, const struct plan *plan, uint64_t step);
/** sim_check_patience() - Check that @worker does not stop waiting for links while a peer that it
 * reaches reads its state */
void sim_check_patience(const struct sim_worker *worker);
/** sim_check_pace() - Check the pace when a generation is about to be written, prepared or put in
 * force */
void sim_check_pace(struct sim *sim);
/** Check after a transaction that records of checkpoints only go forward */
void sim_check_written(struct sim *sim);
/** sim_check_slots_back_ns() - Return when all slots that return to service by themselves are back
 */
uint64_t sim_check_slots_back_ns(const struct sim *sim);
/** Check after the faults that training continues, and ends, in time. Called now and then; true:
 * the job is complete */
bool sim_check_liveness(struct sim *sim, uint64_t calm_since_ns);
/** Check at the end that the job is complete and nothing is left running */
void sim_check_end(struct sim *sim);
