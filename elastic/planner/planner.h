/*
 * Choose a layout from costs and slots: K stages x R replicas, unit ranges, lanes per replica, and
 * a slot for each rank. The planner is a pure function. It minimizes the predicted step time over
 * all K and R.
 *
 * The prediction simulates the schedule (warm-up, bubble, transfers) of the slowest replica, then
 * adds the reduction and the optimizer. Weight gradients are deferred as far as memory allows
 * (elastic/plan/pipeline_schedule.h), which shortens the bubble. Replicas of unlike slots get lanes
 * in proportion to their speed. The stages of one replica stay on one node where they fit. A worker
 * that holds the state of a stage keeps that stage where this costs no time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "elastic/job/job_model.h"
#include "elastic/job/job_spec.h"
#include "elastic/job/job_training.h"
#include "elastic/plan/plan_layout.h"
#include "elastic/plan/plan_trial.h"
#include "elastic/planner/slot_rates.h"

struct planner_unit {
    double forward_seconds,
        backward_seconds;  /* one micro-batch on a slot of speed 1; backward: 0 when frozen */
    double weight_seconds; /* part of backward_seconds that can be deferred */
    double kept_seconds;   /* part of forward_seconds that kept outputs save (planner_keep()) */
    size_t parameter_bytes, activation_bytes, boundary_bytes;
    size_t weight_bytes;  /* parameters in the activation type; 0 when that type is f32 */
    size_t scratch_bytes; /* compute buffers; a stage needs the largest of its units */
    size_t link_bytes; /* slot memory that an unread message over the unit's boundary takes; 0 when
                          the slot has device memory */
    size_t tied_bytes; /* one end of a trained tied table: the gradient received from the other end
                          when another stage has it; else 0 */
    size_t norm_bytes; /* gradients of norms of one micro-batch, kept if the unit is split */
    unsigned samples;  /* of a micro-batch: frozen sublayers compute one at a time */
    bool trained;
    bool thaws; /* not trained now, but with the memory of a trained unit (planner_thaw()) */
    bool head;  /* never split: in a stage that defers, all micro-batches share its activations */
    enum plan_recompute again; /* lowest level that recomputes the unit; NONE: never */
};

/** planner_unit_takes() - return whether @unit has the memory of a trained unit */
static inline bool planner_unit_takes(const struct planner_unit *unit)
{
    return unit->trained || unit->thaws;
}

struct planner_slot {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE];
    size_t memory_bytes; /* 0: not limited */
    double speed;        /* relative, 1 = the reference of its kind */
    bool gpu;
    unsigned threads; /* of a CPU slot; 0: unknown */
    struct slot_measured measured;
    /* state that the worker on this slot holds now, so that it can stay there; 0 units: none */
    unsigned held_first_unit, held_unit_count;
    uint64_t instance;
};

/* Outputs of frozen layers that nodes have kept (worker/cache/frozen_outputs.h), as a worker of the
 * first stage finds them: it loads the output of the model's first units for a fraction of the
 * samples. */
struct planner_kept {
    unsigned unit_count; /* 0: none are kept */
    double share;        /* 0 to 1 */
};

struct planner_input {
    const struct planner_unit *units;
    unsigned unit_count;
    const struct planner_slot *slots;
    unsigned slot_count;
    unsigned devices_max; /* use at most this many */
    unsigned lanes, micro_batches_per_lane;
    double link_bytes_per_second, link_latency_seconds;
    double updated_bytes_second;             /* elastic/planner/slot_rates.h; 0: rate of a CPU
                                                slot */
    unsigned stages_wanted, replicas_wanted; /* 0: any; else only this K or R */
    struct plan_shape avoided;               /* no layout of this K and R */
    bool defers_nothing;                     /* 1F1B, even where memory allows more */
    bool shares_lanes;          /* replicas may share lanes (worker/step/lane_relay.h) */
    struct planner_kept kept;   /* useful if the first stage has all these units; */
    bool kept_alone;            /* and is the only stage */
    unsigned first_units_least; /* the first stage has at least this many units */
    size_t process_bytes;       /* elastic/planner/process_memory.h; 0: slots have device memory */
};

struct planner_choice {
    unsigned stage_count, replica_count;
    double step_seconds; /* predicted */
    double bubble_share;
    size_t memory_bytes_max;
    enum plan_recompute recompute; /* the lowest level that fits, or the highest if none fits */
    unsigned deferred;             /* the most weight gradients that fit; 0: 1F1B */
    bool shares_lanes;             /* between replicas */
    bool fits;                     /* in every slot's memory */
};

#define PLANNER_CHOICES_MAX 64

/**
 * planner_run() - fill @layout: counts, workers, stage_first_unit,
 * replica_first_lane, replica_head, prediction
 * @ret_choices: the best candidates in order, for `firnctl plan`; may be NULL
 *
 * With kept outputs, the best layout whose first stage can load them competes with the best of all.
 * Ties go to fewer devices, then to fewer stages. Layouts that do not fit come last among the
 * choices. Their `fits` is false and their time is only a lower bound. Layouts that differ from a
 * better one only in that they share lanes, or share none, are left out.
 *
 * Return: 0; -ENOSPC (no layout fits the memory or the pins; @error names the cause and the missing
 * amount); -ENOMEM
 */
int planner_run(const struct planner_input *input, struct plan_layout *layout,
                struct planner_choice *ret_choices, unsigned *ret_choice_count,
                struct error *error) CHECK_RESULT;

/**
 * planner_predict() - predict the seconds of one step of @layout on its slots
 *
 * A slot of @layout that @input does not list counts as a reference slot.
 * Return: 0 or -ENOMEM.
 */
int planner_predict(const struct planner_input *input, const struct plan_layout *layout,
                    double *ret_seconds) CHECK_RESULT;

/**
 * planner_job() - fill the planner's input for a job: units on a reference slot, lanes, the
 * link
 * @slots: borrowed by @ret_input. The reference slot is a GPU with the best measured rates if all
 * slots are GPUs. Otherwise it is a CPU slot, which needs more memory.
 * @units: job_model_unit_count() entries, filled here, borrowed by @ret_input
 *
 * devices_max, stages_wanted, replicas_wanted and avoided are left at zero for the caller to set;
 * call planner_keep() next if outputs are kept.
 */
void planner_job(const struct job_spec *spec, unsigned frozen_layers,
                 const struct planner_slot *slots, unsigned slot_count, struct planner_unit *units,
                 struct planner_input *ret_input);

/**
 * planner_keep() - let the layouts of @input load the outputs @kept
 * @units: of @input; trained units are always computed
 */
void planner_keep(struct planner_input *input, struct planner_unit *units,
                  const struct planner_kept *kept);

/**
 * planner_thaw() - give those of @frozen_layers that may thaw the memory of trained ones, as
 * planner_job() does
 * @units: of planner_units()
 */
void planner_thaw(struct planner_unit *units, const struct job_spec *spec, unsigned frozen_layers);

/** planner_parameter_bytes() - return the bytes of one unit's f32 parameters */
size_t planner_parameter_bytes(const struct job_model *model, unsigned unit);

/**
 * planner_workspace_bytes() - return the bytes that a library's attention may take on a GPU with
 * activations of @activation_size bytes, beyond those that firnd leaves to libraries
 */
size_t planner_workspace_bytes(const struct job_model *model, size_t activation_size);

/**
 * planner_units() - compute costs from the job alone: arithmetic and bytes at @rates
 * @ret_units: job_model_unit_count() entries
 *
 * Units below the boundary of @frozen_layers have no backward.
 */
void planner_units(const struct job_model *model, const struct job_training *training,
                   unsigned frozen_layers, const struct slot_rates *rates,
                   struct planner_unit *ret_units);
