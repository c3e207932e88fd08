/*
 * The section `train` of a job: the steps, the samples of each, and the optimizer. Together with
 * the model and the data it decides every bit of a run.
 */
#pragma once

#include <stdint.h>

#include "elastic/job/job_text.h"

#define JOB_LANES_MAX         1024
#define JOB_MICRO_BATCHES_MAX 65536 /* of a lane */

enum job_schedule { JOB_SCHEDULE_CONSTANT, JOB_SCHEDULE_COSINE, JOB_SCHEDULE_LINEAR };
enum job_precision { JOB_PRECISION_BF16, JOB_PRECISION_TF32, JOB_PRECISION_F32 };
#define JOB_PRECISIONS 3
/* Action on a step whose loss or gradient is not finite (step_record_finite()). */
enum job_nan { JOB_NAN_STOP, JOB_NAN_SKIP };

/* AdamW, and the schedule of its learning rate (elastic/job/learning_rate.h). */
struct job_optimizer {
    char name[JOB_WORD_SIZE]; /* "adamw" */
    double lr, beta1, beta2, epsilon, weight_decay;
    uint64_t warmup; /* steps */
    enum job_schedule schedule;
    double min_lr_factor; /* of lr, at the last step of `cosine` and `linear` */
    double clip;          /* global gradient norm; 0: no clipping */
};

struct job_training {
    uint64_t steps;
    unsigned lanes, micro_batch, micro_batches_per_lane;
    uint64_t seed;
    enum job_precision precision; /* of GPUs; CPU slots compute in f32 */
    enum job_nan on_nan;
    struct job_optimizer optimizer;
};
