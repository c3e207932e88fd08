#include "elastic/planner/planned_worker.h"

#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

size_t planned_copy_bytes(const struct planner_unit *units, const struct plan *plan, unsigned stage)
{
    size_t bytes = 0;

    for (unsigned u = plan->stage_first_unit[stage]; u < plan->stage_first_unit[stage + 1]; u++)
        bytes += units[u].parameter_bytes * (units[u].trained ? 4 : 1);
    return bytes;
}

static size_t stage_bytes(const struct job_training *training, const struct plan *plan,
                          unsigned rank, const struct planner_unit *units)
{
    unsigned stage = rank % plan->stage_count, replica = rank / plan->stage_count;
    unsigned lanes = plan->replica_first_lane[replica + 1] - plan->replica_first_lane[replica];
    unsigned sums = sums_room(training->lanes, plan->replica_count, plan->replica_first_lane);

    return planner_stage_bytes(units, plan->stage_first_unit[stage],
                               plan->stage_first_unit[stage + 1], plan->stage_count - stage,
                               gradient_room(lanes, sums), plan->recompute);
}

size_t planned_worker_bytes(const struct job_model *model, const struct job_training *training,
                            const struct plan *plan, unsigned rank, bool gpu, unsigned threads)
{
    const struct slot_rates rates = slot_rates(gpu, training->precision);
    AUTO_FREE struct planner_unit *units = calloc(job_model_unit_count(model), sizeof(*units));

    if (!units)
        return 0;
    assert(rank < plan->worker_count);
    planner_units(model, training, plan->frozen_layers, &rates, units);
    size_t bytes =
        stage_bytes(training, plan, rank, units) + (gpu ? 0 : process_bytes(model, threads));
    for (unsigned i = 0; i < plan->shadow_count; i++)
        if (plan->shadows[i].rank == rank)
            bytes += planned_copy_bytes(units, plan, plan->shadows[i].stage);
    return bytes;
}
