/*
 * Simulate a whole firn cluster in one process, on a clock that only events move.
 *
 * Real code: all decisions. elastic/ (leader, agent, recovery, planner, plans and reports as JSON),
 * membership/ (election, registry), and firnd's own wiring (of daemon/: job.c, leading.c,
 * checkpoint_record.c, retention_sweep.c, subscription.c, earlier_report.c, view.c, mirror.c,
 * outbox.c, suspicion.c). Simulated: the store behind `struct kv`, the network, disks, processes,
 * and the worker. The worker's code blocks in threads, so it is modelled as a state machine that
 * follows worker/session/trainer.c line by line.
 *
 * A seed replays its run: all randomness comes from one 64-bit seed through Philox, events of the
 * same time fire in the order in which they were posted, and nothing reads the state of the
 * machine.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/philox.h"
#include "elastic/job/job_spec.h"

#define SIM_CLUSTER "sim"
#define SIM_JOB     "job"
#ifndef SIM_NODES_MAX /* trace/trace.c has larger ones */
#define SIM_NODES_MAX 5
#define SIM_LANES     6
#define SIM_STEPS_MAX 8192
#endif
#define SIM_STEPS_LONG      512 /* of a job from a seed whose faults need time */
#define SIM_SLOTS_MAX       3
#define SIM_UNITS           8 /* of the model: three layers */
#define SIM_FAILURE_TIMEOUT (1500 * NS_PER_MS)

/* Rules that a run can break on purpose, to show that a checker notices. */
enum sim_bug {
    BUG_NONE,
    BUG_APPLY_WITHOUT_COMMIT,
    BUG_COMMIT_WITHOUT_HOLDS,
    BUG_DROP_BEFORE_COMMIT,
    BUG_OLD_FRAMES,
    BUG_OLD_CHECKPOINT,
    BUG_UNGUARDED_LEADER,
    BUG_IGNORED_HOLD,
    BUG_SILENT_AGENT,
    BUG_MOVE_OF_OTHER_STEP,
    BUG_SWITCH_WITHOUT_FLAG,
    BUG_KEPT_GRADIENTS,
    BUG_CHECKPOINT_NOT_DURABLE,
    BUG_HOLD_BEFORE_REDUCE,
    BUG_OTHER_CHECKPOINT,
    BUG_LATE_WORKER,
    BUG_DEAF_LINKS,
    BUG_WAITS_FOR_ETCD,
    BUG_KEPT_STRAGGLER,
    BUG_WRONG_STRAGGLER,
    BUG_PARTIAL_LEADER,
    BUG_HOLD_BEFORE_SHADOW,
    BUG_UNTOLD_SHADOW,
    BUG_DROPPED_SHADOW,
    BUG_STALE_SHADOW,
    BUG_CLAIMED_COPIES,
    BUG_PLACED_UNHEARD,
    BUG_EARLY_SWEEP,
    BUG_UNTOLD_CUT,
    BUG_WRONG_CUT,
    BUG_OVERTAKEN_RECORD,
    BUG_HELD_UP,
    BUG_GOES_ON_ALONE,
    BUG_AWAY_AS_LOST,
    BUG_UNHEARD_NOTICE,
    BUG_SILENT_KEEPER,
    BUG_FORGOTTEN_SLOT,
    BUG_BEGUN_BY_SOME,
    BUG_UNSEEN_STATE,
    BUG_UNSEEN_GRADIENTS,
    BUG_KEPT_DISPUTED,
    BUG_WRONG_VERDICT,
    BUG_HASTY_LEADER,
    BUG_HASTY_NEWCOMER,
    BUG_RESTLESS_LEADER,
    BUG_BLIND_SWITCH,
    BUG_PATIENT_SWITCH,
    BUG_LATE_RECORD,
    BUG_HASTY_PEER,
    BUG_DEAF_EVALUATION,
    BUG_HOLD_BEFORE_MOMENTS,
    BUG_KEPT_PARTIAL,
    BUG_HOLD_BEFORE_SUMS,
    BUG_LONE_REST,
    BUG_STALE_COPIES,
    BUG_COUNT,
};

/* What a bug is called, and a seed that has noticed it: tried first, to save the way to it. */
struct sim_broken_rule {
    const char *name;
    uint64_t seed;
};
extern const struct sim_broken_rule sim_broken_rules[BUG_COUNT];

struct sim_event;

/* Durations that are not drawn from the seed. */
struct sim_costs {
    uint64_t lane_ns;    /* forward and backward of one lane through the whole model; 0: drawn */
    uint64_t spawn_ns;   /* until a process can be prepared */
    uint64_t restore_ns; /* of a whole checkpoint, on one worker */
    uint64_t unit_ns;    /* to move one unit's state to another worker */
};

/* A process that can be paused: its events wait until it resumes. */
struct sim_pause {
    uint64_t until_ns;
};

/* Independent streams, so that one more fault does not change every delay before it. */
enum sim_stream {
    STREAM_SETUP,
    STREAM_DELAYS,
    STREAM_FAULTS,
    STREAM_STRAGGLERS,
    STREAM_CUTS,
    STREAM_NOTICES,
    STREAM_BITS,
    STREAM_INPUT,
    STREAM_COUNT
};

struct sim_random {
    struct philox_key key;
    uint64_t counter;
    uint32_t words[4];
    unsigned left;
};

struct sim_store;
struct sim_network;
struct sim_disk;
struct sim_node;
struct sim_worker;
struct sim_check;
struct sim_faults;
struct sim_stragglers;
struct sim_cuts;
struct sim_notices;
struct sim_bits;
struct sim_input;

/* The slow parts of a history (sim_scale.h). */
struct sim_slowness {
    bool slow_starts; /* opening devices and reading state take up to ten minutes each */
    bool slow_files;  /* the file server is slow */
    uint64_t errands, evaluations; /* begun so far */
};

struct sim {
    uint64_t seed, now_ns;
    enum sim_bug bug;
    bool trace;
    struct sim_random random[STREAM_COUNT];
    struct sim_event **heap;
    size_t event_count, event_room;
    uint64_t posted, fired;

    struct job_spec spec;
    struct sim_costs costs;
    uint64_t events_max;
    uint64_t compute_us;  /* of one step, about */
    uint64_t slot_memory; /* bytes of each slot; 0: unlimited */
    unsigned stages;      /* asked for; 0: free */
    struct sim_slowness slowness;
    bool one_fault;        /* sim_fault_alone is the only fault */
    unsigned links_newest; /* link protocol to which nodes are upgraded */
    unsigned node_count;
    struct sim_node *nodes;
    struct sim_worker **workers; /* every process that ever was, by instance */
    unsigned worker_count;
    struct sim_store *store;
    struct sim_network *network;
    struct sim_disk *disk;
    struct sim_check *check;
    struct sim_faults *faults;
    struct sim_stragglers *stragglers; /* NULL: in no scene */
    struct sim_cuts *cuts;             /* NULL: in no scene */
    struct sim_notices *notices;       /* NULL: in no scene */
    struct sim_bits *bits;             /* NULL: in no scene */
    struct sim_input *input;           /* NULL: in no scene */

    bool unjudged; /* the run ends here: the fault can no longer be detected */
    bool failed;
    char failure[512];
};

/* The running simulation, for real code that is called without a context (clocks, files, random
 * keys). */
extern struct sim *sim_now;

/** sim_new() - Make a cluster of daemons that has just been switched on, and submit a job */
struct sim *sim_new(uint64_t seed, enum sim_bug bug, bool trace);
/** sim_new_scene() - Make the same job for @steps, with a checkpoint every @checkpoint_every steps,
 * on @node_count machines that are switched off, and without drawn faults: the caller calls
 * sim_submit(), sim_node_return() and sim_node_lose() */
struct sim *sim_new_scene(uint64_t steps, uint64_t checkpoint_every, unsigned node_count,
                          const struct sim_costs *costs);
/** sim_submit() - Submit the job of sim->spec; the number of steps stays */
void sim_submit(struct sim *sim);
void sim_free(struct sim *sim);
/** sim_run_until() - Fire events until @until_ns; false: a rule was broken */
bool sim_run_until(struct sim *sim, uint64_t until_ns);
/** sim_run() - Run to the end of the history or the first violation; false: failed */
bool sim_run(struct sim *sim);

/* ---- events (sim_queue.c) ---- */

/** sim_post() - Call @fire at @at_ns, or when @whose (may be NULL) resumes; the event is freed when
 * fired */
struct sim_event *sim_post(struct sim *sim, uint64_t at_ns, const struct sim_pause *whose,
                           void (*fire)(void *context), void *context);
/** sim_cancel() - Cancel an event that has not fired; NULL allowed */
void sim_cancel(struct sim *sim, struct sim_event *event);
/** sim_cancel_one() - Cancel an event that would call @fire, and return its context; NULL: no event
 * would */
void *sim_cancel_one(struct sim *sim, void (*fire)(void *context));
/** sim_step() - Fire the next event; false: there is none */
bool sim_step(struct sim *sim);
void sim_queue_free(struct sim *sim);

/** sim_random() - Draw a number below @below (> 0); sim_chance() - Return true @percent of the time
 */
uint64_t sim_random(struct sim *sim, enum sim_stream stream, uint64_t below);
bool sim_chance(struct sim *sim, enum sim_stream stream, unsigned percent);
/** sim_soon() - Return now plus a random delay between the two, in microseconds */
uint64_t sim_soon(struct sim *sim, uint64_t least_us, uint64_t most_us);
uint64_t sim_mix(uint64_t a, uint64_t b);

/** sim_fail() - Report a broken rule: the first report ends the run */
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_tell(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** sim_drop_logs() - Drop the logs of real code, which are for operators; a trace shows warnings */
void sim_drop_logs(void);
#define sim_trace(sim, ...)                                                                        \
    do {                                                                                           \
        if ((sim)->trace)                                                                          \
            sim_tell(sim, __VA_ARGS__);                                                            \
    } while (0)

void *sim_allocate(size_t count, size_t size_bytes);
