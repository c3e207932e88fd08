/*
 * Replay a spot trace in the simulator (tests/sim): firn's own leader, agents and protocol, on
 * simulated time, with nodes that come and go as in the trace. The durations of a step, a start, a
 * restore and a move of state are given. The report is the goodput: the committed steps, as a
 * fraction of the steps that the present slots could have done undisturbed, at the speed of so many
 * slots in a simulation without a trace. The report compares it with "stop all, restart from the
 * last checkpoint" on the same trace. That is computed by arithmetic, with every doubt in its
 * favour: its steps take as long as undisturbed steps, it detects at once, and its rendezvous takes
 * no time.
 *
 * A node that leaves loses its power: no notice, no closed connection.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/trace/spot_trace.h"

#define MICRO_BATCHES  16u /* of a lane */
#define NS             1e9
#define SETTLE_SECONDS 60 /* all nodes have joined, or wait for the end of a step */
#define MEASURED_STEPS 8

static const char usage[] =
    "bench-trace-sim [options] TRACE\n"
    "  --lane-seconds S     forward and backward of one of the job's lanes on one slot (0.5)\n"
    "  --spawn-seconds S    from starting a worker until it can be prepared (1.2)\n"
    "  --state-gb G         parameters and optimizer state of the model (1.48)\n"
    "  --restore-gbps G     bytes a second when a checkpoint is read (0.18)\n"
    "  --link-gbps G        bytes a second between two nodes (1.0)\n"
    "  --hours H            only so much of the trace\n"
    "  --checkpoint-seconds S  between two checkpoints with all nodes, at least a step (300)\n";

struct setting {
    double lane_seconds, spawn_seconds, state_gb, restore_gbps, link_gbps, hours,
        checkpoint_seconds;
};

struct player {
    struct sim *sim;
    struct spot_event event;
};

static void play(void *context)
{
    const struct player *player = context;
    struct sim_node *node = &player->sim->nodes[player->event.node];
    if (player->event.change > 0 && !node->up) {
        node->incarnation = 0; /* another machine: it knows nothing */
        sim_node_return(node);
    } else if (player->event.change < 0 && node->up) {
        sim_node_lose(node);
    }
}

/* ---- undisturbed steps ---- */

/* The computing time of a step. */
static double lanes_seconds(const struct setting *setting, unsigned slots)
{
    return SIM_LANES * setting->lane_seconds / MIN(slots, (unsigned)SIM_LANES);
}

/*
 * Ask for replicas alone: the simulator's pipelines have no bubble, and the possible steps must be
 * known.
 */
static void ask_for_one_stage(struct sim *sim)
{
    const struct desired_record desired = {.wish = RECORD_RUNNING, .stages = 1};
    char key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = desired_record_encode(&desired);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "desired"), text);
}

static struct sim *make_scene(uint64_t checkpoint_every, unsigned nodes,
                              const struct sim_costs *costs)
{
    struct sim *sim = sim_new_scene(SIM_STEPS_MAX, checkpoint_every, nodes, costs);
    sim->spec.train.micro_batches_per_lane = MICRO_BATCHES;
    return sim;
}

/* Run until @step steps are committed; return the time, to a hundredth of a step. */
static double await_step(struct sim *sim, double step_seconds, uint64_t step)
{
    while (sim->check->committed_step < step &&
           sim_run_until(sim, sim->now_ns + (uint64_t)(step_seconds / 100 * NS)))
        ;
    return (double)sim->now_ns / NS;
}

/* Measure a step on @slots nodes that all stay: its lanes, reduction, commit and apply. */
static double measure_step(const struct setting *setting, const struct sim_costs *costs,
                           unsigned slots)
{
    double lanes = lanes_seconds(setting, slots);
    struct sim *sim = make_scene(SIM_STEPS_MAX, slots, costs);
    sim_submit(sim);
    ask_for_one_stage(sim);
    for (unsigned i = 0; i < slots; i++)
        sim_node_return(&sim->nodes[i]);
    sim_run_until(sim, sim->now_ns + (uint64_t)(SETTLE_SECONDS * NS));
    uint64_t begin =
        sim->check->committed_step + 2; /* the last change takes effect within a step */
    double began = await_step(sim, lanes, begin);
    double seconds = (await_step(sim, lanes, begin + MEASURED_STEPS) - began) / MEASURED_STEPS;
    sim_free(sim);
    return seconds;
}

/* Measure steps for each number of slots, from 1 on. */
static double *measure_steps(const struct setting *setting, const struct sim_costs *costs,
                             unsigned most)
{
    double *seconds = sim_allocate(most + 1, sizeof(*seconds));
    for (unsigned slots = 1; slots <= most; slots++)
        seconds[slots] = measure_step(setting, costs, slots);
    return seconds;
}

static double steps_in(const double *step_seconds, unsigned slots, double seconds)
{
    return slots == 0 || seconds <= 0 ? 0 : seconds / step_seconds[slots];
}

/* ---- the possible steps, and the steps of restarting ---- */

struct outcome {
    double possible, restarted, slot_seconds;
    unsigned changes; /* at different times */
};

static struct outcome compute(const struct spot_trace *trace, const double *step_seconds,
                              double restart_seconds, unsigned checkpoint_every, double end)
{
    struct outcome outcome = {0};
    double now = 0, ready = restart_seconds, done = 0;
    unsigned slots = 0;
    for (size_t i = 0; i <= trace->event_count; i++) {
        double at = i < trace->event_count ? (double)trace->events[i].at_ns / NS : end;
        at = at < end ? at : end;
        if (at > now) {
            double begin = ready > now ? ready : now;
            outcome.possible += steps_in(step_seconds, slots, at - now);
            outcome.slot_seconds += slots * (at - now);
            done += steps_in(step_seconds, slots, at - begin);
            outcome.changes += at < end;
            if (at < end)
                done = checkpoint_every * (double)(uint64_t)(done / checkpoint_every);
            ready = at + restart_seconds;
            now = at;
        }
        if (i < trace->event_count)
            slots = trace->events[i].change > 0 ? slots + 1 : slots - 1;
    }
    outcome.restarted = done;
    return outcome;
}

/* ---- the run ---- */

static void report(const struct spot_trace *trace, const double *step_seconds,
                   const struct sim *sim, double end, double restart_seconds)
{
    unsigned every = (unsigned)sim->spec.checkpoint.every;
    struct outcome outcome = compute(trace, step_seconds, restart_seconds, every, end);
    printf("\n%.2f h, %u different nodes, at most %u, mean %.1f; %u times at which nodes came or "
           "went\n",
           end / 3600, trace->node_count, trace->most, outcome.slot_seconds / end, outcome.changes);
    printf(
        "undisturbed, the slots of each moment: %.0f steps; one takes %.3f s on one slot, %.3f s "
        "on %u\n",
        outcome.possible, step_seconds[1], step_seconds[trace->most], trace->most);
    printf("firn: %" PRIu64 " steps committed, goodput %.2f %%; %" PRIu64
           " generations, %u began from memory, %u from disk\n",
           sim->check->committed_step, 100 * (double)sim->check->committed_step / outcome.possible,
           sim->check->newest.generation, sim->check->counts.memory_plans,
           sim->check->counts.disk_plans);
    printf("stop all, restart from the last checkpoint: %.0f steps, goodput %.2f %%\n",
           outcome.restarted, 100 * outcome.restarted / outcome.possible);
}

static void describe(const struct setting *setting, const struct sim *sim, double restart_seconds)
{
    printf(
        "given: a lane of %u micro-batches takes %.3f s (%u lanes), a worker starts in %.2f s, state %.2f GB, read "
        "at %.2f GB/s, moved at %.2f GB/s\n",
        MICRO_BATCHES, setting->lane_seconds, SIM_LANES, setting->spawn_seconds, setting->state_gb,
        setting->restore_gbps, setting->link_gbps);
    printf(
        "simulated: detection (failure_timeout 1.5 s, leases 10 s and 3 s), etcd 0.1-2 ms a way, "
        "reduction and commit of a step 1-6 ms, apply 0.5-6 ms\n");
    printf(
        "assumed: nodes go without notice, checkpoints every %" PRIu64
        " steps cost nothing, a layout with as many replicas as slots is the best there is, copies of "
        "sums take at most a hundredth of the time from computing, which is not counted\n",
        (uint64_t)sim->spec.checkpoint.every);
    printf(
        "the restart beside it: %.1f s for every change (start and read the checkpoint), noticed "
        "at once\n",
        restart_seconds);
    fflush(stdout);
}

static int run(const struct spot_trace *trace, const struct setting *setting)
{
    double restore_seconds = setting->state_gb / setting->restore_gbps;
    double restart_seconds = setting->spawn_seconds + restore_seconds;
    double end = (double)trace->end_ns / NS;
    if (setting->hours > 0 && setting->hours * 3600 < end)
        end = setting->hours * 3600;
    const struct sim_costs costs = {
        .lane_ns = (uint64_t)(setting->lane_seconds * NS),
        .spawn_ns = (uint64_t)(setting->spawn_seconds * NS),
        .restore_ns = (uint64_t)(restore_seconds * NS),
        .unit_ns = (uint64_t)(setting->state_gb / SIM_UNITS / setting->link_gbps * NS)};
    AUTO_FREE double *step_seconds = measure_steps(setting, &costs, trace->most);
    uint64_t every =
        (uint64_t)MAX(1.0, setting->checkpoint_seconds / lanes_seconds(setting, trace->most));
    struct sim *sim = make_scene(every, trace->node_count, &costs);
    uint64_t began_ns = sim->now_ns;
    sim_submit(sim);
    ask_for_one_stage(sim);
    struct player *players = sim_allocate(trace->event_count + 1, sizeof(*players));
    for (size_t i = 0; i < trace->event_count; i++) {
        players[i] = (struct player){.sim = sim, .event = trace->events[i]};
        sim_post(sim, began_ns + trace->events[i].at_ns, NULL, play, &players[i]);
    }
    describe(setting, sim, restart_seconds);
    bool good = sim_run_until(sim, began_ns + (uint64_t)(end * NS));
    if (good && sim->check->committed_step >= SIM_STEPS_MAX) {
        fprintf(stderr,
                "bench-trace-sim: the trace has more steps than the %d that are simulated: play "
                "less of it with --hours\n",
                SIM_STEPS_MAX);
        good = false;
    } else if (good)
        report(trace, step_seconds, sim, end, restart_seconds);
    else
        fprintf(stderr, "bench-trace-sim: a rule was broken %s\n", sim->failure);
    sim_free(sim);
    free(players);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static const struct option flags[] = {{"lane-seconds", required_argument, NULL, 0},
                                          {"spawn-seconds", required_argument, NULL, 1},
                                          {"state-gb", required_argument, NULL, 2},
                                          {"restore-gbps", required_argument, NULL, 3},
                                          {"link-gbps", required_argument, NULL, 4},
                                          {"hours", required_argument, NULL, 5},
                                          {"checkpoint-seconds", required_argument, NULL, 6},
                                          {0}};
    struct setting setting = {.lane_seconds = 0.5,
                              .spawn_seconds = 1.2,
                              .state_gb = 1.48,
                              .restore_gbps = 0.18,
                              .link_gbps = 1.0,
                              .checkpoint_seconds = 300};
    double *const values[] = {&setting.lane_seconds,      &setting.spawn_seconds, &setting.state_gb,
                              &setting.restore_gbps,      &setting.link_gbps,     &setting.hours,
                              &setting.checkpoint_seconds};
    struct spot_trace trace;
    struct error error = {0};
    bool good = true;
    int flag;
    while (good && (flag = getopt_long(argc, argv, "", flags, NULL)) != -1)
        good = flag < (int)ARRAY_COUNT(values) && (*values[flag] = strtod(optarg, NULL)) > 0;
    if (!good || optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    if (spot_trace_read(argv[optind], &trace, &error) < 0) {
        fprintf(stderr, "bench-trace-sim: %s\n", error.text);
        return EXIT_FAILURE;
    }
    if (trace.node_count == 0 || trace.node_count > SIM_NODES_MAX) {
        fprintf(stderr, "bench-trace-sim: %s has %u nodes, 1 to %u can be played\n", argv[optind],
                trace.node_count, SIM_NODES_MAX);
        spot_trace_done(&trace);
        return EXIT_FAILURE;
    }
    sim_drop_logs();
    int result = run(&trace, &setting);
    spot_trace_done(&trace);
    return result;
}
