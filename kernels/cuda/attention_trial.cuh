/*
 * A trial of cuDNN's attention against our own kernels, before it is let near a job: two samples of
 * at most TRIAL_CONTEXT tokens with the heads of the shape in question, drawn numbers.
 */
#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cudnn.cuh"

#define TRIAL_CONTEXT     256u
#define TRIAL_REASON_SIZE 160

struct attention_trial {
    char forward[TRIAL_REASON_SIZE], backward[TRIAL_REASON_SIZE]; /* what is wrong; "": nothing */
};

/**
 * attention_trial_run() - on the compute queue; waits for it
 * Return: 0, @ret_trial says how it went; -ENOMEM: no memory to try with
 */
int attention_trial_run(struct kernel_device *device, const struct cudnn *cudnn,
                        const attention_view &view, struct attention_trial *ret_trial);
