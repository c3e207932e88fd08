#include "elastic/planner/planned_worker.h"

#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

size_t planned_copy_bytes(const struct planner_unit *units, const struct plan_layout *layout,
                          unsigned stage)
{
    size_t bytes = 0;

    for (unsigned u = layout->stage_first_unit[stage]; u < layout->stage_first_unit[stage + 1]; u++)
        bytes += units[u].parameter_bytes * (planner_unit_takes(&units[u]) ? 4 : 1);
    return bytes;
}

static size_t stage_bytes(const struct job_training *training, const struct plan_layout *layout,
                          unsigned rank, const struct planner_unit *units)
{
    unsigned stage = rank % layout->stage_count, replica = rank / layout->stage_count;
    unsigned sums = sums_room(training->lanes, layout->replica_count, layout->replica_first_lane);

    return layout_stage_bytes(units, layout->stage_first_unit, layout->stage_count, stage,
                              gradient_room(layout_buffers(layout, replica), sums),
                              layout->recompute, layout->deferred);
}

size_t planned_worker_bytes(const struct job_spec *spec, const struct plan_layout *layout,
                            unsigned rank, bool gpu, unsigned threads)
{
    const struct slot_rates rates = slot_rates(gpu, spec->train.precision);
    AUTO_FREE struct planner_unit *units =
        calloc(job_model_unit_count(&spec->model), sizeof(*units));

    if (!units)
        return 0;
    assert(rank < layout->worker_count);
    planner_units(&spec->model, &spec->train, layout->frozen_layers, &rates, units);
    planner_thaw(units, spec, layout->frozen_layers);
    size_t bytes = stage_bytes(&spec->train, layout, rank, units) +
                   (gpu ? 0 : process_bytes(&spec->model, threads));
    for (unsigned i = 0; i < layout->shadow_count; i++)
        if (layout->shadows[i].rank == rank)
            bytes += planned_copy_bytes(units, layout, layout->shadows[i].stage);
    return bytes;
}
