/*
 * A worker process without threads, modelled after the files that worker/session/trainer.h lists.
 * The main thread's place in the code is a `point`, and every wait is a return. The immediate
 * reactions of the control thread (obey STOP, break off for an unplanned plan) happen when the
 * command arrives, all other reactions when the main thread next reads its mailbox.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/messages/control.h"
#include "protocol/checkpoint_calendar.h"
#include "protocol/checkpoint_progress.h"
#include "protocol/checkpoint_vote.h"
#include "protocol/division_round.h"
#include "protocol/final_checkpoint.h"
#include "protocol/pending_plan.h"
#include "protocol/stay.h"
#include "protocol/step_commit.h"
#include "protocol/step_sums.h"
#include "protocol/sum_copies.h"
#include "protocol/unit_arrivals.h"
#include "sim/fault/sim_disk.h"
#include "sim/worker/sim_mesh.h"
#include "sim/worker/sim_tree.h"

struct worker_process;

enum sim_point {
    POINT_BOOT,
    POINT_DEVICE,
    POINT_WAIT, /* for a plan */
    POINT_RESTORE,
    POINT_LINKS,
    POINT_HANDOVER,
    POINT_OFFERS,   /* of sums of the step in progress */
    POINT_FACTS,    /* of the children, on the step in progress */
    POINT_DIVISION, /* of that step */
    POINT_WANTED,   /* of the sums that were offered */
    POINT_DONOR,
    POINT_STEP,
    POINT_FORWARD,
    POINT_BACKWARD,
    POINT_REDUCE,
    POINT_ARRIVE,   /* waits for the units that others hand over */
    POINT_SHADOW,   /* waits for the gradients of the stages that the worker shadows */
    POINT_GATHER,   /* waits for HOLD of the children */
    POINT_ASK,      /* waits for the parent */
    POINT_APPLY,    /* between COMMIT and APPLIED */
    POINT_EVALUATE, /* evaluates the finished model */
    POINT_ANNOUNCED,
    POINT_SHARE, /* of the last checkpoint */
    POINT_RECORD,
    POINT_CLAIMS,  /* of the children, in a dispute */
    POINT_VERDICT, /* waits for the parent's verdict */
    POINT_OUT,     /* its slot is out of service, or the job diverged: waits to be stopped */
    POINT_COUNT,
};

struct sim_command {
    struct sim_command *next;
    uint64_t due_ns;
    enum control_type type;
    struct plan *plan;
    uint64_t step, generation, kept_from; /* the checkpoint of firnd's answer */
    bool committed;
};

/* worker/checkpoint/snapshot.c: this rank's share, and on rank 0 the commit. */
struct sim_snapshot {
    struct checkpoint_progress progress;
    struct checkpoint_calendar calendar;
    struct checkpoint_writers writers;
    struct checkpoint_vote vote;
    uint64_t done_ns; /* when the share is written */
    struct sim_part part;
    unsigned world;
    bool left_out[JOB_DEVICES_MAX]; /* ranks that skipped the checkpoint begun last */
    /* Without copies: the commit in flight. */
    uint64_t commit_done_ns, commit_step, commit_generation;
    unsigned commit_world;
    bool commit_left_out[JOB_DEVICES_MAX];
    struct sim_replication *replication; /* with copies: this node's part; NULL: none in flight */
};

/* worker/step/kept_step.c: the worker's part of a step in progress. */
struct sim_kept {
    uint64_t step; /* 0: nothing */
    unsigned first_unit, unit_count;
    struct lane_fact lanes[SIM_LANES];
};

/* worker/step/moved_sums.c: the sums that this worker and others exchange. */
struct sim_sums {
    struct step_sums list, given; /* given: while they are asked for */
    unsigned next_pair;           /* the pair of the plan whose message is awaited */
    bool gives;                   /* the sums that other ranks want are known */
    bool asked_by[JOB_DEVICES_MAX];
    uint64_t arrive_ns; /* when all requested sums are here */
};

/* worker/step/lane_relay.c: the lanes that the worker's replica shares with its neighbours in the
 * current step. */
struct sim_relay {
    uint64_t step, generation;
    unsigned gives; /* micro-batches that it computes of the head that it passes on */
    unsigned gets;  /* of the head that it gets */
    unsigned lane;  /* of the head that it gets */
    unsigned to_rank, from_rank;
    uint64_t pass_ns;   /* when the head that it passes on arrives */
    uint64_t rest_ns;   /* of computing, behind the head that it gets */
    bool passed, begun; /* begun: the rest behind that head */
};

/* worker/step/sum_copies.c: the copies of another replica's sums that the worker keeps, and those
 * of its own that it sends. */
struct sim_copies {
    struct step_sums kept;
    uint64_t kept_step;           /* of which they are; 0: forgotten */
    uint64_t step, generation;    /* in which it copies its own */
    struct step_sums asked, sent; /* asked: what its keeper has; sent: on their way */
    bool has_asked, sending;
    uint64_t began_ns, arrive_ns, due_ns; /* of those on their way; of the next ones */
    struct sum_copies_cost cost;
    bool looks; /* an event is due between two micro-batches */
};

/* worker/step/engine.h: the part of a step that the worker computes. */
struct sim_share {
    struct sim_kept kept;
    struct sim_sums sums;
    struct sim_relay relay;
    struct sim_copies copies;
    struct step_division division;        /* of this generation; step 0: as planned */
    uint64_t step_began_ns, announced_ns; /* announced: a change that may begin within it */
    uint64_t from_ns, until_ns;           /* of the current forward, if nothing stops it */
    uint64_t turn_ns; /* of an operation of a step that was left for a change; 0: none */
    bool looks;       /* an event is due after its next micro-batch */
};

/* The purpose of a commit round. */
enum sim_round {
    SIM_ROUND_STEP,
    SIM_ROUND_LAST_STEP,  /* all units are compared before the finished model is evaluated */
    SIM_ROUND_EVALUATION, /* its result */
    SIM_ROUND_CHECKPOINT, /* of the last one (protocol/final_checkpoint.h) */
};

/* The content of the rounds along the tree of ranks (sim_tree.h). */
struct sim_rounds {
    struct sim_tree tree; /* the current round */
    struct step_commit *commit;
    enum sim_round kind;         /* of the commit */
    struct unit_digests digests; /* of the last comparison */
    uint64_t all_step; /* boundary of the last comparison of all units; UINT64_MAX: none */
    enum dispute_about disputed; /* in the last round, as far as the worker knows */
    struct dispute_memory disputes;
    struct dispute dispute;
    bool judged; /* the verdict is known; other ranks may still have to get it */
    struct division_round division;
};

/* The units that others hand over to this worker, and those that it gives. */
struct sim_handover {
    unsigned next_move;
    struct unit_arrivals arrivals;
    uint64_t moments_ns; /* earliest arrival of the moments */
};

/*
 * The worker's history as the checkers saw it, independent of its own reports and memory: the step
 * of each unit when the worker last applied, and the last step whose reduced gradients it had.
 */
struct sim_ledger {
    uint64_t kept[SIM_UNITS];
    /* Of its own stage and of shadows: the last step in each of its last two generations. */
    struct {
        uint64_t generation, step;
    } gradients[2][SIM_UNITS];
    uint64_t hold_generation, hold_step;
};

struct sim_worker {
    struct sim *sim;
    unsigned node, slot, links;
    uint64_t instance;
    char name[16];
    bool alive, listening, unlinked; /* listening: the socket exists; unlinked: its path is gone */
    uint64_t died_ns;
    struct sim_pause pause;
    struct sim_event *wake, *alarm;
    uint64_t ready_ns; /* when its device is open, or its state is read; 0: at once */

    /* the control socket */
    struct worker_process *process; /* a connected daemon */
    bool accepted;
    struct sim_command *commands, *mailbox;
    struct sim_event *command_pump;
    struct worker_report *kept_status;
    struct control_checkpoint kept_checkpoint; /* step 0: none */

    /* struct trainer */
    enum worker_phase phase;
    struct plan *plan;
    struct pending_plan pending;
    uint64_t prepared, generation, announced, recorded_step, refused_step;
    uint64_t held_generation;
    bool stopping, cancelled, first_commit;
    enum worker_cause cause; /* while the worker reports that it is stuck */
    struct sim_state state;
    struct sim_mesh *mesh;
    struct mesh_unreached unreached;
    bool engine; /* an engine exists, of this rank and range */
    unsigned rank, first_unit, unit_count;
    bool keeps[SIM_UNITS]; /* of the engine: its range, and the stages that it shadows */
    uint64_t gradients_step[SIM_UNITS]; /* the step of its buffered gradients; 0: none */

    enum sim_point point;
    uint64_t busy_until_ns, deadline_ns;
    struct sim_share share;
    uint64_t act_digest, sum_digest; /* of this replica; of all replicas before it in the sum */
    unsigned next_replica, next_shadow;
    struct sim_handover handover;
    struct final_checkpoint final;
    uint64_t look_ns; /* rank 0: until when it waits for the record before the next round */
    struct stay stay; /* plan NULL: it has not begun in this generation */
    struct sim_rounds rounds;
    struct sim_snapshot snapshot;
    uint64_t progress_ns;
    struct straggler *straggler; /* rank 0, if the job evicts stragglers */
    uint64_t computed_ns;        /* compute time of this step; 0: not measured */
    struct sim_ledger ledger;
};

struct sim_worker *sim_worker_spawn(struct sim *sim, unsigned node, unsigned slot);
void sim_worker_free(struct sim_worker *worker);
/** sim_worker_at() - Return the live process on a slot whose socket can be found; NULL: none */
struct sim_worker *sim_worker_at(const struct sim *sim, unsigned node, unsigned slot);
const char *sim_worker_name(const struct sim_worker *worker);
/** sim_worker_wake() - Let the main thread continue */
void sim_worker_wake(struct sim_worker *worker);
/** sim_worker_command() - Deliver a command of firnd; takes @command */
void sim_worker_command(struct sim_worker *worker, struct sim_command *command);
/** sim_worker_accept() - Connect firnd: the worker repeats the reports that it keeps */
void sim_worker_accept(struct sim_worker *worker, struct worker_process *process);
/** sim_worker_kill() - Kill the process as SIGKILL does, or an equally sudden end */
void sim_worker_kill(struct sim_worker *worker);
void sim_worker_pause(struct sim_worker *worker, uint64_t until_ns);

/* ---- between the files of the worker ---- */

void worker_go(struct sim_worker *worker, enum sim_point point);
void worker_busy(struct sim_worker *worker, uint64_t least_us, uint64_t most_us);
void worker_alarm(struct sim_worker *worker, uint64_t at_ns);
void worker_report(struct sim_worker *worker, enum worker_phase phase);
void worker_messages(struct sim_worker *worker);
void worker_exit(struct sim_worker *worker, int exit_code);
/** worker_broken() - End the worker's part in the generation because of @status */
void worker_broken(struct sim_worker *worker, int status);
void worker_say(struct sim_worker *worker, const struct control_message *message);
/** worker_leave() - Leave the job: the worker has nothing more to do */
void worker_leave(struct sim_worker *worker);
/** worker_finish_early() - Open the links again, to write the state before a step that was left */
void worker_finish_early(struct sim_worker *worker);
/** worker_switch() - Put the pending plan into force */
void worker_switch(struct sim_worker *worker);

/* sim_session.c: run one step of the main thread at its point; false: the main thread waits */
bool session_step(struct sim_worker *worker);
/** session_take() - Take a message of this generation if it has arrived; with a failed mesh, end
 * the generation instead and set *ret_broken */
bool session_take(struct sim_worker *worker, unsigned from, enum sim_tag tag, uint64_t step,
                  struct sim_payload *ret_payload, bool *ret_broken);
void session_begin(struct sim_worker *worker);
/** session_arrived() - Continue with the step, the evaluation of the finished model or the last
 * checkpoint when all state for the worker has arrived */
void session_arrived(struct sim_worker *worker);
/** session_round() - Begin a commit round of @kind, with this rank's part */
void session_round(struct sim_worker *worker, enum sim_round kind);
/** session_hear_of_checkpoint() - Note which checkpoint is durable or has failed, from the commit
 * round */
void session_hear_of_checkpoint(struct sim_worker *worker);
/** session_await_plan() - Wait for the plan that the stay has announced */
void session_await_plan(struct sim_worker *worker);
void session_finish(struct sim_worker *worker);
/** session_is_evaluating() - Return whether the worker evaluates the finished model, or waits for
 * the result of the others */
bool session_is_evaluating(const struct sim_worker *worker);
/** session_apply() - Apply the optimizer step, if the record fits the worker's state */
void session_apply(struct sim_worker *worker, const struct sim_record *record);

/* sim_handover.c: worker/state/handover.c, around the real protocol/unit_arrivals.h */
bool handover_at_links(struct sim_worker *worker);
/** handover_at_units() - Take all but the moments of the units that others hand over */
bool handover_at_units(struct sim_worker *worker);
/** handover_at_arrive() - Take the moments, before the worker may say that it holds a step */
bool handover_at_arrive(struct sim_worker *worker);
bool handover_at_donor(struct sim_worker *worker);
/** handover_tell() - status_report_running() */
void handover_tell(struct sim_worker *worker);
/** handover_drop_partial() - Drop incomplete units after the links broke */
void handover_drop_partial(struct sim_worker *worker);

/* sim_last_checkpoint.c */
bool session_at_share(struct sim_worker *worker);
bool session_at_record(struct sim_worker *worker);
/** session_after_checkpoint_round() - Continue the last checkpoint after a round of all ranks */
bool session_after_checkpoint_round(struct sim_worker *worker);

/* sim_division.c: worker/step/kept_step.c, worker/session/step_agreement.c, step_watch.c */

/** sim_division_begin() - Agree on the step in progress, then begin the session */
void sim_division_begin(struct sim_worker *worker);
bool sim_division_at_offers(struct sim_worker *worker);
bool sim_division_at_facts(struct sim_worker *worker);
bool sim_division_at_division(struct sim_worker *worker);
bool sim_division_at_wanted(struct sim_worker *worker);
/** sim_division_find() - Find the division of the coming step */
void sim_division_find(const struct sim_worker *worker, struct step_division *ret_division);
/** sim_division_left() - Return the micro-batches that the worker's replica computes in the coming
 * step */
unsigned sim_division_left(const struct sim_worker *worker);
/** sim_division_share() - Return the part of the whole step that the worker's replica computes */
double sim_division_share(const struct sim_worker *worker);
/** sim_division_owns() - Return whether the worker's replica has @lane in the coming step */
bool sim_division_owns(const struct sim_worker *worker, unsigned lane);
/** sim_division_interrupt() - Stop the worker after its current micro-batch when the links broke;
 * the computed micro-batches stay */
void sim_division_interrupt(struct sim_worker *worker);
/** sim_division_longest_ns() - Return the time of the longest micro-batch of the live workers,
 * which nothing interrupts */
uint64_t sim_division_longest_ns(const struct sim *sim);
/** sim_division_operation_ns() - Return the time of one micro-batch of the worker */
uint64_t sim_division_operation_ns(const struct sim_worker *worker);
/** sim_division_done() - Find what the worker has of the step that it computes now */
void sim_division_done(const struct sim_worker *worker, struct sim_kept *ret_kept);
/** sim_division_keep() - Keep the worker's part of the step before its engine is freed */
void sim_division_keep(struct sim_worker *worker);
/** sim_division_forget() - Drop the kept part of a step */
void sim_division_forget(struct sim_worker *worker);
/** sim_division_announced() - A planned change is announced: rank 0 may begin it within the step */
void sim_division_announced(struct sim_worker *worker);
/** sim_division_watch() - Let a computing worker look around after each micro-batch while a
 * checkpoint is in flight, and on rank 0 while a change is announced */
void sim_division_watch(struct sim_worker *worker);
/** sim_division_leaves() - Return whether the worker, whose links broke within a step, continues in
 * the next generation at once */
bool sim_division_leaves(struct sim_worker *worker);

/* sim_sums.c: worker/step/moved_sums.c. Results are 0, -EAGAIN (not yet) and -ECONNRESET. */

/** sim_sums_begin() - Offer the kept sums to the ranks that the plan pairs with this rank */
void sim_sums_begin(struct sim_worker *worker);
int sim_sums_take_offers(struct sim_worker *worker);
/** sim_sums_facts() - Return the facts about own and offered sums */
struct step_facts sim_sums_facts(struct sim_worker *worker);
/** sim_sums_settle() - Ask for the sums with which the worker continues */
void sim_sums_settle(struct sim_worker *worker, const struct step_division *division);
int sim_sums_take_wanted(struct sim_worker *worker);
bool sim_sums_have_arrived(const struct sim_worker *worker);
/** sim_sums_misses() - Return whether a sum of @lane has been asked for and has not arrived */
bool sim_sums_misses(const struct sim_worker *worker, unsigned lane);
/** sim_sums_await_release() - Wait, as a donor, until this worker may leave */
int sim_sums_await_release(struct sim_worker *worker);
void sim_sums_done(struct sim_worker *worker);

/** sim_sums_send() - Send a list of sums of the coming step */
void sim_sums_send(struct sim_worker *worker, unsigned rank, enum sim_tag tag,
                   const struct step_sums *sums);
/** sim_sums_list_own() - List what the worker has of the step that it computes now */
void sim_sums_list_own(const struct sim_worker *worker, struct step_sums *sums);

/* sim_copies.c: worker/step/sum_copies.c */

/** sim_copies_begin() - Begin a step, or the rest of one */
void sim_copies_begin(struct sim_worker *worker);
/** sim_copies_list() - List the copies of sums of the worker's stage, as offered by itself */
void sim_copies_list(struct sim_worker *worker, struct step_sums *sums);
/** sim_copies_check() - Check that the chosen copies are of the step in progress */
void sim_copies_check(const struct sim_worker *worker, const struct step_sums *sums);
/** sim_copies_forget() - Drop the copies with the kept part of a step */
void sim_copies_forget(struct sim_worker *worker);
void sim_copies_done(struct sim_worker *worker);

/* sim_relay.c: worker/step/lane_relay.c */

/** sim_relay_begin() - Begin a step whose computing times are known */
void sim_relay_begin(struct sim_worker *worker);
/** sim_relay_run() - Compute what follows the head of a shared lane: 0: done; -EAGAIN: it waits for
 * the head, or computes; -ECONNRESET */
int sim_relay_run(struct sim_worker *worker);
/** sim_relay_rest() - Return the micro-batches that wait for the head of a shared lane */
unsigned sim_relay_rest(const struct sim_worker *worker);
/** sim_relay_has_head() - Return whether the sum of the head of @lane has arrived in this step */
bool sim_relay_has_head(const struct sim_worker *worker, unsigned lane);
/** sim_relay_check() - Check, when the worker holds a step, that the head was passed on */
void sim_relay_check(const struct sim_worker *worker);

/* sim_dispute.c: worker/step/dispute_round.c and worker/state/state_digest.c */

/**
 * dispute_compare() - Compute the digests of the units whose turn it is, or of all units with @all
 */
void dispute_compare(struct sim_worker *worker, bool all);
/** dispute_compare_once() - Compute the digests of all units, unless done at this boundary */
void dispute_compare_once(struct sim_worker *worker);
/** dispute_hear() - Note the dispute that the commit round has found so far */
void dispute_hear(struct sim_worker *worker);
/** dispute_settle() - Begin a dispute instead of the round's commit */
void dispute_settle(struct sim_worker *worker);
bool dispute_at_claims(struct sim_worker *worker);
bool dispute_at_verdict(struct sim_worker *worker);
bool dispute_at_out(struct sim_worker *worker);
/** dispute_let_go() - Drop the state of the generation if the worker knows that replicas differ in
 * it; return why the worker cannot continue */
enum worker_cause dispute_let_go(struct sim_worker *worker);

/* sim_checkpoint_vote.c: worker/session/checkpoint_duty.c while a step is computed */

/** sim_vote_begin() - Open the vote on the checkpoint that all ranks have just begun */
void sim_vote_begin(struct sim_worker *worker);
/** sim_vote_is_watched() - Return whether a checkpoint is in flight */
bool sim_vote_is_watched(const struct sim_worker *worker);
/** sim_vote_look() - Advance the share, the vote and the commit between two micro-batches */
void sim_vote_look(struct sim_worker *worker);

/** sim_restore() - Restore the state that the plan does not move here. Return 0; -ENOENT: the
 * checkpoint is lost; -EHOSTUNREACH: a node that may have it does not answer */
int sim_restore(struct sim_worker *worker);

/* sim_snapshot.c */
/** sim_snapshot_busy() - Return whether a new snapshot cannot begin at the coming boundary */
bool sim_snapshot_busy(const struct sim_worker *worker);
bool sim_snapshot_begin(struct sim_worker *worker);
void sim_snapshot_poll(struct sim_worker *worker);
void sim_snapshot_commit(struct sim_worker *worker, uint64_t durable_step);
/** sim_snapshot_all_told() - Note that a commit has told all ranks that the shares of @durable_step
 * are durable */
void sim_snapshot_all_told(struct sim_worker *worker, uint64_t durable_step);
/** sim_snapshot_abandon() - With copies: drop the local files of @failed_step, which failed on some
 * node */
void sim_snapshot_abandon(struct sim_worker *worker, uint64_t failed_step);
/** sim_snapshot_end_copies() - Give up the checkpoint in progress with other nodes */
void sim_snapshot_end_copies(struct sim_worker *worker);
/** sim_snapshot_take_result() - Report a finished commit to firnd */
void sim_snapshot_take_result(struct sim_worker *worker);
/** sim_snapshot_reset() - Forget the step begun last: a generation begins, or the step failed
 * somewhere and is to be written again */
void sim_snapshot_reset(struct sim_worker *worker);
