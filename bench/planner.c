/*
 * The time of the planner: 1,000 slots of 125 nodes and a model of 200 units, in the situations in
 * which a leader plans. The aim is 50 ms. No other program is comparable; the same plan for one
 * node's slots shows how the time grows.
 *
 * Processor time is reported, because the planner is pure computation and the machine is shared.
 */
#include <stdio.h>
#include <string.h>

#include "bench/lib/measure.h"
#include "bench/lib/usage.h"
#include "elastic/plan/plan.h"
#include "elastic/planner/planner.h"

#define SLOTS          1000
#define SLOTS_PER_NODE 8
#define UNITS          200
#define LANES          1000
#define AIM_MS         50.0

struct situation {
    const char *name;
    unsigned slots, frozen_units;
    bool unlike;       /* three kinds of slots, by speed and memory */
    bool memory_tight; /* no slot holds more than a tenth of the model */
    bool running;      /* every slot holds the units of a layout of ten stages */
};

static const struct situation situations[] = {
    {.name = "8_slots", .slots = 8},
    {.name = "1000_alike", .slots = SLOTS},
    {.name = "1000_unlike", .slots = SLOTS, .unlike = true},
    {.name = "1000_half_frozen", .slots = SLOTS, .frozen_units = UNITS / 2},
    {.name = "1000_short_of_memory", .slots = SLOTS, .memory_tight = true, .unlike = true},
    {.name = "1000_running", .slots = SLOTS, .running = true},
};

/* A transformer of 99 layers and width 4096, roughly; the units must differ. */
static void make_units(const struct situation *situation, struct planner_unit units[UNITS])
{
    for (unsigned i = 0; i < UNITS; i++) {
        bool end = i == 0 || i == UNITS - 1, attention = i % 2 == 1;
        double work = end ? 6e-3 : attention ? 3e-3 : 5e-3;
        bool trained = i >= situation->frozen_units;
        units[i] = (struct planner_unit){.forward_seconds = work,
                                         .backward_seconds = trained ? 2 * work : 0.0,
                                         .weight_seconds = trained ? work : 0.0,
                                         .parameter_bytes = (end         ? 800u
                                                             : attention ? 268u
                                                                         : 537u)
                                                            << 20,
                                         .activation_bytes = (attention ? 96u : 144u) << 20,
                                         .boundary_bytes = 16u << 20,
                                         .trained = trained};
    }
}

static void make_slots(const struct situation *situation, struct planner_slot slots[SLOTS])
{
    const size_t all = (size_t)320 << 30;

    for (unsigned i = 0; i < situation->slots; i++) {
        struct planner_slot *slot = &slots[i];
        unsigned node = i / SLOTS_PER_NODE, kind = situation->unlike ? node % 3 : 0;
        *slot = (struct planner_slot){.slot = i % SLOTS_PER_NODE, .speed = 1.0 - 0.2 * kind};
        snprintf(slot->node, sizeof(slot->node), "node%u", node);
        snprintf(slot->address, sizeof(slot->address), "10.0.%u.%u:9000", node / 250, node % 250);
        slot->memory_bytes = situation->memory_tight ? all / (10 + kind) : 0;
        if (situation->running) {
            slot->held_first_unit = i % 10 * (UNITS / 10);
            slot->held_unit_count = UNITS / 10;
            slot->instance = i + 1;
        }
    }
}

static void measure_situation(struct measure *measure, const struct situation *situation,
                              unsigned rounds)
{
    static struct planner_unit units[UNITS];
    static struct planner_slot slots[SLOTS];
    struct samples times = {0};
    struct planner_input input = {.units = units,
                                  .unit_count = UNITS,
                                  .slots = slots,
                                  .slot_count = situation->slots,
                                  .devices_max = situation->slots,
                                  .lanes = LANES,
                                  .micro_batches_per_lane = 4,
                                  .shares_lanes = true,
                                  .link_bytes_per_second = 10e9,
                                  .link_latency_seconds = 20e-6};
    char layout[64] = "";

    make_units(situation, units);
    make_slots(situation, slots);
    for (unsigned i = 0; i < rounds; i++) {
        struct plan *plan = plan_new();
        struct error error = {0};
        double began = measure_cpu();
        if (!plan || planner_run(&input, &plan->layout, NULL, NULL, &error))
            measure_die("%s: %s", situation->name, error.text);
        samples_add(&times, 1e3 * (measure_cpu() - began));
        snprintf(layout, sizeof(layout), "%u stages x %u replicas", plan->layout.stage_count,
                 plan->layout.replica_count);
        plan_free(plan);
    }
    printf("%-22s median %6.1f ms, slowest %6.1f ms: %s the aim of %.0f ms (%s)\n", situation->name,
           samples_median(&times), samples_quantile(&times, 1.0),
           samples_median(&times) <= AIM_MS ? "within" : "OVER", AIM_MS, layout);
    measure_samples(measure, situation->name, &times);
}

static const struct usage_option known[] = {
    {"--rounds", "N", "how often each situation is planned (9)"},
};

int main(int argc, char **argv)
{
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    unsigned rounds = measure_count(argc, argv, "--rounds", 9);
    struct measure *measure = measure_begin(
        "planner", "processor time of planning, 200 units and up to 1,000 slots", argc, argv);

    for (size_t i = 0; i < ARRAY_COUNT(situations); i++)
        measure_situation(measure, &situations[i], rounds);
    return measure_end(measure);
}
