#include "elastic/job/job_spec.h"

uint64_t job_spec_tokens_per_step(const struct job_model *model,
                                  const struct job_training *training)
{
    return (uint64_t)training->lanes * training->micro_batch * training->micro_batches_per_lane *
           model->context;
}

bool job_keeps_copies(const struct job_spec *spec)
{
    return spec->checkpoint.copies > 1;
}
