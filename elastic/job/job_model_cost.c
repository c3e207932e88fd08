#include "elastic/job/job_model_cost.h"

struct job_unit_widths job_unit_widths(const struct job_model *model, unsigned unit)
{
    bool attention = unit % 2 == 1, llama = job_model_is_llama(model);
    double width = model->width, hidden = model->hidden;
    double head_width = model->head_width;
    double heads = model->heads, kv_heads = model->kv_heads;

    if (!llama)
        return attention ? (struct job_unit_widths){3 * width, width}
                         : (struct job_unit_widths){4 * width, 4 * width};
    if (attention)
        return (struct job_unit_widths){(heads + 2 * kv_heads) * head_width, heads * head_width};
    return (struct job_unit_widths){2 * hidden, hidden};
}

double job_unit_forward_flops(const struct job_model *model, unsigned unit, double tokens)
{
    double width = model->width, vocab = model->vocab, context = model->context;
    unsigned last = 2 * model->layers + 1;

    if (unit == 0)
        return 2 * tokens * width;
    if (unit == last)
        return 2 * tokens * width * vocab;
    struct job_unit_widths widths = job_unit_widths(model, unit);
    double products = 2 * tokens * width * (widths.wide + widths.mixed);
    if (unit % 2 == 1)
        return products + 2 * tokens * context * widths.mixed; /* half is masked */
    return products;
}

double job_model_step_share(const struct job_model *model, unsigned frozen_layers)
{
    unsigned frozen_units = job_model_frozen_units(frozen_layers);
    double all = 0, backward = 0;

    for (unsigned unit = 0; unit < job_model_unit_count(model); unit++) {
        double forward = job_unit_forward_flops(model, unit, 1);
        all += forward;
        backward += unit >= frozen_units ? 2 * forward : 0;
    }
    return (all + backward) / (3 * all);
}
