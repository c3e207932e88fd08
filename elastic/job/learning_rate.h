/*
 * The learning rate of each step, from the section `train` of a job. Every worker computes it
 * itself, so it must be identical to the bit on every machine. Library functions whose last bit
 * depends on version or processor are not used.
 */
#pragma once

#include <stdint.h>

#include "elastic/job/job_training.h"

/**
 * learning_rate_at() - return the learning rate of @step (from 1), the same bits on every machine
 *
 * The rate rises linearly to lr at step `warmup`. Then it is constant, or falls to lr x
 * min_lr_factor at the last step.
 */
double learning_rate_at(const struct job_training *training, uint64_t step);
