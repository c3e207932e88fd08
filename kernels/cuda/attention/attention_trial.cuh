/*
 * A trial of cuDNN's attention against our own kernels, before a job uses it.
 *
 * A kernel that adds with atomics is detected only if several blocks add to one element, and only
 * if their order changes. So the trial runs the job's own plans, at their full shape, TRIAL_RUNS
 * times, concurrently with work on another queue that grows from run to run.
 */
#pragma once

#include "kernels/cuda/attention/attention_cudnn.cuh"

#define TRIAL_RUNS        8
#define TRIAL_REASON_SIZE 160

struct attention_trial {
    char forward[TRIAL_REASON_SIZE], backward[TRIAL_REASON_SIZE]; /* the failure; "": none */
};

/**
 * attention_trial_run() - run one part of the micro-batch with each planned graph, on the compute
 * queue while the copy queue has work, and wait for it
 * @forward, @backward: graphs of @view; without samples: not tried
 * @workspace: of the larger graph
 *
 * Return: 0, with the outcome in @ret_trial; -ENOMEM: no memory for the trial
 */
int attention_trial_run(struct kernel_device *device, const struct attention_graph *forward,
                        const struct attention_graph *backward, const attention_view &view,
                        void *workspace, struct attention_trial *ret_trial);
