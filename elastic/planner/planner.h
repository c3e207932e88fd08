/*
 * From costs and slots to a layout: K stages x R replicas, unit ranges, lanes per replica, and
 * which slot gets which rank. A pure function; minimizes the predicted step time over all K and R.
 *
 * The prediction simulates the 1F1B schedule (warm-up, bubble, transfers) of the slowest replica,
 * then adds the reduction and the optimizer. Replicas of unlike slots carry lanes by their speed.
 * Stages of one replica are kept on one node where that fits; workers that hold state keep the
 * stage they have where that costs nothing.
 */
#pragma once

#include <stddef.h>

#include "elastic/plan/plan.h"
#include "elastic/planner/slot_rates.h"

struct planner_unit {
    double forward_seconds,
        backward_seconds; /* one micro-batch on a slot of speed 1; backward 0 when frozen */
    size_t parameter_bytes, activation_bytes, boundary_bytes;
    size_t weight_bytes;  /* the parameters in the type of the activations; 0 where that is f32 */
    size_t scratch_bytes; /* what the stage of a unit computes in; of all its units the most */
    size_t link_bytes; /* what a message over its boundary takes of the slot while nobody asks for
                          it; 0 where the slot's memory is a device's own */
    size_t tied_bytes; /* one end of a trained tied table: the other end's gradient, which comes
                          when that is another stage's; else 0 */
    bool trained;
    enum plan_recompute again; /* from which level on it is computed again; NONE: never */
};

struct planner_slot {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE];
    size_t memory_bytes; /* 0: not limited */
    double speed;        /* relative, 1 = the reference of its kind */
    bool gpu;
    unsigned threads; /* of a CPU slot; 0: not known */
    struct slot_measured measured;
    /* what the worker there holds now (0 units: nothing), to keep state where it is */
    unsigned held_first_unit, held_unit_count;
    uint64_t instance;
};

struct planner_input {
    const struct planner_unit *units;
    unsigned unit_count;
    const struct planner_slot *slots;
    unsigned slot_count;
    unsigned devices_max; /* use at most this many */
    unsigned lanes, micro_batches_per_lane;
    double link_bytes_per_second, link_latency_seconds;
    double updated_bytes_second;             /* elastic/planner/slot_rates.h; 0: a CPU slot's */
    unsigned stages_wanted, replicas_wanted; /* 0: free; else only this K or R */
    size_t process_bytes; /* elastic/planner/process_memory.h; 0: the slots' memory is the devices'
                             own */
};

struct planner_choice {
    unsigned stage_count, replica_count;
    double step_seconds; /* predicted */
    double bubble_share;
    size_t memory_bytes_max;
    enum plan_recompute recompute; /* the least that makes it fit, or the most if nothing does */
    bool fits;                     /* in every slot's memory */
};

#define PLANNER_CHOICES_MAX 64

/**
 * planner_run() - fill the layout part of a plan: counts, workers, stage_first_unit,
 * replica_first_lane, prediction
 * @ret_choices: the best candidates in order, for `firnctl plan`; may be NULL
 *
 * Ties go to fewer devices, then to fewer stages. Layouts that do not fit come last among the
 * choices, with fits false and a time that is only a lower bound.
 *
 * Return: 0; -ENOSPC (no layout fits the memory or the pins; @error says which and what is
 * missing); -ENOMEM
 */
int planner_run(const struct planner_input *input, struct plan *plan,
                struct planner_choice *ret_choices, unsigned *ret_choice_count,
                struct error *error) CHECK_RESULT;

/** planner_predict() - seconds of one step on the layout of @plan, whoever its slots are (those
   that
    @input does not list count as reference slots); 0 or -ENOMEM */
int planner_predict(const struct planner_input *input, const struct plan *plan,
                    double *ret_seconds) CHECK_RESULT;

/**
 * planner_job() - what a plan of @spec is made from: units on a reference slot, lanes, the link
 * @slots: borrowed by @ret_input. The reference is a GPU where all of them are GPUs, as fast as the
 * best that was measured of them, else a CPU slot, which needs more memory
 * @units: job_spec_unit_count() of them, filled, and borrowed by @ret_input
 *
 * devices_max and wishes are left at zero: they are the caller's.
 */
void planner_job(const struct job_spec *spec, unsigned frozen_layers,
                 const struct planner_slot *slots, unsigned slot_count, struct planner_unit *units,
                 struct planner_input *ret_input);

/** planner_parameter_bytes() - f32 parameters of one unit */
size_t planner_parameter_bytes(const struct job_spec *spec, unsigned unit);

/** planner_units() - costs from the spec alone (arithmetic and bytes at @rates), before anything is
   measured; units below the boundary of @frozen_layers have no backward. @ret_units:
   job_spec_unit_count() */
void planner_units(const struct job_spec *spec, unsigned frozen_layers,
                   const struct slot_rates *rates, struct planner_unit *ret_units);
