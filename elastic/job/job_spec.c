#include "elastic/job/job_spec.h"

uint64_t job_spec_tokens_per_step(const struct job_model *model,
                                  const struct job_training *training)
{
    return (uint64_t)training->lanes * training->micro_batch * training->micro_batches_per_lane *
           model->context;
}

bool job_spec_checkpoint_due(const struct job_spec *spec, uint64_t step)
{
    return spec->checkpoint.every > 0 && step % spec->checkpoint.every == 0 &&
           step != spec->train.steps;
}

bool job_keeps_copies(const struct job_spec *spec)
{
    return spec->checkpoint.copies > 1;
}
