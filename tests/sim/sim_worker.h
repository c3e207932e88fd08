/*
 * A worker process, as the files that worker/session/trainer.h lists make it, without threads: the
 * main thread's place in the code is a `point`, and every wait is a return. What the control thread
 * does at once (obey STOP, break off for an unplanned plan) happens when the order arrives;
 * everything else when the main thread next looks at its mailbox.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/messages/control.h"
#include "sim/sim_disk.h"
#include "sim/sim_mesh.h"

struct worker_process;

enum sim_point {
    POINT_BOOT,
    POINT_DEVICE,
    POINT_WAIT, /* for a plan */
    POINT_RESTORE,
    POINT_LINKS,
    POINT_HANDOVER,
    POINT_DONOR,
    POINT_STEP,
    POINT_FORWARD,
    POINT_BACKWARD,
    POINT_REDUCE,
    POINT_SHADOW, /* the gradients of the stages that it keeps copies of */
    POINT_GATHER, /* HOLD: the children's words */
    POINT_ASK,    /* the parent's */
    POINT_APPLY,  /* between COMMIT and APPLIED */
    POINT_ANNOUNCED,
    POINT_SHARE, /* of the last checkpoint */
    POINT_RECORD,
    POINT_CLAIMS,  /* of the children, in a dispute */
    POINT_VERDICT, /* the parent's word */
    POINT_OUT,     /* its slot goes out of service: waits to be stopped */
    POINT_COUNT,
};

struct sim_order {
    struct sim_order *next;
    uint64_t due_ns;
    enum control_type type;
    struct plan *plan;
    uint64_t step, generation, kept_from; /* of a checkpoint that firnd answers for */
    bool committed;
};

/* worker/checkpoint/snapshot.c: this rank's share, and on rank 0 the commit. */
struct sim_snapshot {
    bool writing;
    uint64_t done_ns;
    struct sim_part part;
    uint64_t begun_step, durable_step, failed_step, committed_step, committed_generation;
    uint64_t abandoned_step;
    uint64_t unable_step; /* failed because of this node's disk */
    bool left_out[JOB_DEVICES_MAX], commit_left_out[JOB_DEVICES_MAX]; /* who wrote nothing of it */
    bool committing;
    uint64_t commit_done_ns, commit_step, commit_generation;
    unsigned world, commit_world;
    /* With copies: this node's part in it, and of which step it was begun last. */
    struct sim_spread *spread;
    uint64_t kept_step;
};

/* worker/step/step_commit.c: one round of the commit tree. */
struct sim_round {
    bool closing;
    unsigned next_child;
    struct sim_payload sum;  /* what goes up */
    struct sim_payload down; /* what came down */
};

/*
 * What a worker has done, as the checkers saw it, whatever it says or remembers itself: the step
 * of each unit when it applied last, and the last step whose reduced gradients it had.
 */
struct sim_ledger {
    uint64_t kept[SIM_UNITS];
    /* Of its own stage and of copies: the last step in each of its last two generations. */
    struct {
        uint64_t generation, step;
    } gradients[2][SIM_UNITS];
    uint64_t hold_generation, hold_step;
};

/* What the rounds without a step are about. */
enum sim_finish { FINISH_SHARES, FINISH_RECORD, FINISH_GIVEN_UP };

struct sim_worker {
    struct sim *sim;
    unsigned node, slot, links;
    uint64_t instance;
    char name[16];
    bool alive, listening, unlinked; /* listening: its socket is there; unlinked: nobody finds it */
    uint64_t died_ns;
    struct sim_pause pause;
    struct sim_event *wake, *alarm;

    /* the control socket */
    struct worker_process *process; /* a connected daemon */
    bool accepted;
    struct sim_order *orders, *mailbox;
    struct sim_event *order_pump;
    struct worker_report *kept_status;
    struct control_checkpoint kept_checkpoint; /* step 0: none */

    /* struct trainer */
    enum worker_phase phase;
    struct plan *plan, *pending;
    uint64_t prepared, generation, announced, recorded_step, refused_step;
    uint64_t held_generation;
    bool stopping, cancelled, first_commit;
    enum worker_cause cause; /* while it says that it is stuck */
    struct sim_state state;
    struct sim_mesh *mesh;
    struct mesh_unreached unreached;
    bool engine; /* there is one, of this rank and range: */
    unsigned rank, first_unit, unit_count;
    bool keeps[SIM_UNITS]; /* of the engine: its range, and the stages that it shadows */
    uint64_t gradients_step[SIM_UNITS]; /* whose reduced gradients lie in its buffers; 0: none */

    enum sim_point point;
    uint64_t busy_until_ns, deadline_ns;
    uint64_t act_digest, sum_digest; /* of this replica, and of those before it in the reduction */
    unsigned next_move, next_shadow;
    enum sim_finish finish;
    uint64_t look_ns; /* rank 0: until when it waits for the record before the next round */
    enum worker_phase leaves_as;
    struct sim_round round;
    struct sim_digests digests; /* of what was compared last */
    enum sim_dispute disputed;  /* in the last round, as far as it knows */
    struct sim_verdict verdict;
    uint64_t doubted_step[2]; /* the last without a majority: gradients, state */
    struct sim_snapshot snapshot;
    struct checkpoint_writers writers;
    uint64_t progress_ns;
    struct sim_readiness readiness; /* rank 0: as of the last commit */
    struct straggler *straggler;    /* rank 0, if the job evicts stragglers */
    uint64_t computed_ns;           /* what it computed in this step; 0: nobody asks */
    struct sim_ledger ledger;
};

struct sim_worker *sim_worker_spawn(struct sim *sim, unsigned node, unsigned slot);
void sim_worker_free(struct sim_worker *worker);
/** sim_worker_at() - the living process on a slot whose socket can be found; NULL */
struct sim_worker *sim_worker_at(const struct sim *sim, unsigned node, unsigned slot);
const char *sim_worker_name(const struct sim_worker *worker);
/** sim_worker_wake() - its main thread may go on */
void sim_worker_wake(struct sim_worker *worker);
/** sim_worker_order() - firnd wrote to it; @order is taken */
void sim_worker_order(struct sim_worker *worker, struct sim_order *order);
/** sim_worker_accept() - firnd connects: what is kept is said again */
void sim_worker_accept(struct sim_worker *worker, struct worker_process *process);
/** sim_worker_kill() - SIGKILL, or what is as sudden */
void sim_worker_kill(struct sim_worker *worker);
void sim_worker_pause(struct sim_worker *worker, uint64_t until_ns);

/* ---- between the files of the worker ---- */

void worker_go(struct sim_worker *worker, enum sim_point point);
void worker_busy(struct sim_worker *worker, uint64_t least_us, uint64_t most_us);
void worker_alarm(struct sim_worker *worker, uint64_t at_ns);
void worker_report(struct sim_worker *worker, enum worker_phase phase);
void worker_messages(struct sim_worker *worker);
void worker_exit(struct sim_worker *worker, int exit_code);
/** worker_broken() - the generation cannot go on for it */
void worker_broken(struct sim_worker *worker, int status);
void worker_say(struct sim_worker *worker, const struct control_message *message);
/** worker_switch() - the pending plan takes over */
void worker_switch(struct sim_worker *worker);

/* sim_session.c: one step of the main thread at its point; false: it waits */
bool session_step(struct sim_worker *worker);
/** session_take() - a message of this generation is here; with a failed mesh the generation is over
 * instead, and *ret_broken */
bool session_take(struct sim_worker *worker, unsigned from, enum sim_tag tag, uint64_t step,
                  struct sim_payload *ret_payload, bool *ret_broken);
void session_begin(struct sim_worker *worker);
void session_finish(struct sim_worker *worker, enum worker_phase leaves_as);
/** session_apply() - the optimizer step, if all is as it should be */
void session_apply(struct sim_worker *worker, const struct sim_record *record);

/* sim_dispute.c: worker/step/dispute.c and worker/state/state_digest.c */

/** dispute_compare() - digests of the units whose turn it is, or of @all */
void dispute_compare(struct sim_worker *worker, bool all);
/** dispute_merge() - what a child says is merged into the round's sum */
void dispute_merge(struct sim_worker *worker, const struct sim_payload *from);
/** dispute_begin() - the round's commit is none */
void dispute_begin(struct sim_worker *worker);
bool dispute_at_claims(struct sim_worker *worker);
bool dispute_at_verdict(struct sim_worker *worker);
bool dispute_at_out(struct sim_worker *worker);
/** dispute_let_go() - of what its generation held, if it knows that replicas differ in it; why it
 * cannot go on */
enum worker_cause dispute_let_go(struct sim_worker *worker);

/** sim_restore() - what the plan does not move here: 0; -ENOENT: the checkpoint is lost;
 * -EHOSTUNREACH: who has it does not answer */
int sim_restore(struct sim_worker *worker);

/* sim_snapshot.c */
bool sim_snapshot_due(const struct sim *sim, uint64_t step);
/** sim_snapshot_busy() - another one cannot be begun at the coming boundary */
bool sim_snapshot_busy(const struct sim_worker *worker);
bool sim_snapshot_begin(struct sim_worker *worker);
void sim_snapshot_poll(struct sim_worker *worker);
void sim_snapshot_commit(struct sim_worker *worker, uint64_t durable_step);
/** sim_snapshot_abandon() - with copies: @failed_step has failed on some node: what is here goes */
void sim_snapshot_abandon(struct sim_worker *worker, uint64_t failed_step);
/** sim_snapshot_end_copies() - what is under way with other nodes is given up */
void sim_snapshot_end_copies(struct sim_worker *worker);
/** sim_snapshot_take_result() - tell firnd of a commit that is through */
void sim_snapshot_take_result(struct sim_worker *worker);
void sim_snapshot_reset(struct sim_worker *worker);
/** sim_snapshot_forget() - what was begun last failed somewhere: it may be written again */
void sim_snapshot_forget(struct sim_worker *worker);
