/*
 * A trial of cuDNN's attention against our own kernels, before a job uses it: two samples of at
 * most TRIAL_CONTEXT tokens with the heads of the given shape, random numbers.
 */
#pragma once

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/cudnn.cuh"

#define TRIAL_CONTEXT     256u
#define TRIAL_REASON_SIZE 160

struct attention_trial {
    char forward[TRIAL_REASON_SIZE], backward[TRIAL_REASON_SIZE]; /* the failure; "": none */
};

/**
 * attention_trial_run() - run the trial on the compute queue, and wait for it
 * Return: 0, with the outcome in @ret_trial; -ENOMEM: no memory for the trial
 */
int attention_trial_run(struct kernel_device *device, const struct cudnn *cudnn,
                        const attention_view &view, struct attention_trial *ret_trial);
