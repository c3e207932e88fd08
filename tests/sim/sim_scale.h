/* The time scale of a history. */
#pragma once

#include "sim/sim.h"

/** sim_scale_draw() - draw how long a step takes, in some histories from the whole range */
void sim_scale_draw(struct sim *sim);

/** sim_scale_device_ns() - return how long the process of @instance opens its device, besides the
 * time of most histories; sim_scale_restore_ns() - how long it then reads its state for
 * @generation; sim_scale_start_max_ns() - bound the sum */
uint64_t sim_scale_device_ns(const struct sim *sim, uint64_t instance);
uint64_t sim_scale_restore_ns(const struct sim *sim, uint64_t instance, uint64_t generation);
uint64_t sim_scale_start_max_ns(const struct sim *sim);

/** sim_scale_moments_ns() - return how much later than the rest of its state the moments reach the
 * process of @instance in @generation: in histories of long steps up to half a step */
uint64_t sim_scale_moments_ns(const struct sim *sim, uint64_t instance, uint64_t generation);

/** sim_scale_sums_ns() - return how long the sums take that the process of @instance has requested
 * in @generation: up to two steps */
uint64_t sim_scale_sums_ns(const struct sim *sim, uint64_t instance, uint64_t generation);

/** sim_scale_copy_seconds() - let the replicas of a new plan copy their sums in some generations,
 * in steps of any length; 0: as the leader wants it */
double sim_scale_copy_seconds(const struct sim *sim, uint64_t generation);

/** sim_scale_evaluation_ns() - Draw how long a worker evaluates the finished model */
uint64_t sim_scale_evaluation_ns(struct sim *sim);
/** sim_scale_evaluation_max_ns() - Return the longest such time; 0: the job never evaluates */
uint64_t sim_scale_evaluation_max_ns(const struct sim *sim);
/** sim_scale_beyond_ns() - return how much longer than in most histories a step may take: a
 * pipeline has at most a stage for each unit. 0: not longer */
uint64_t sim_scale_beyond_ns(const struct sim *sim);

/** sim_scale_long_step_ns() - return how long one worker alone computes a step, in histories of
 * long steps; 0: in others */
uint64_t sim_scale_long_step_ns(const struct sim *sim);

/** sim_scale_errand_ns() - draw how long the next errand (daemon/core/errand.h) takes, and whether
 * it sees the files as they are at its start */
uint64_t sim_scale_errand_ns(struct sim *sim, bool *ret_early);
