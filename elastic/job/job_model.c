#include "elastic/job/job_model.h"

#include <string.h>

bool job_model_is_llama(const struct job_model *model)
{
    return strcmp(model->family, "llama") == 0;
}

unsigned job_model_unit_count(const struct job_model *model)
{
    return 2 * model->layers + 2;
}

unsigned job_model_frozen_units(unsigned frozen_layers)
{
    return frozen_layers > 0 ? 2 * frozen_layers + 1 : 0;
}
