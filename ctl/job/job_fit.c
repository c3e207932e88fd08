#include "ctl/job/job_fit.h"

#include <errno.h>

#include "base/plural.h"
#include "ctl/job/plan_slots.h"
#include "elastic/planner/planner.h"
#include "elastic/planner/shadow_stages.h"

static int find_layout(const struct job_spec *spec, const struct desired_record *desired,
                       const struct planner_slot *slots, unsigned count, struct error *error)
{
    AUTO_FREE struct planner_unit *units =
        calloc(job_model_unit_count(&spec->model), sizeof(*units));
    struct planner_input input;
    struct plan *plan = plan_new();
    int status = units && plan ? 0 : error_set(error, -ENOMEM, "no memory to plan");

    if (!status) {
        planner_job(spec, spec->elastic.freeze.from_start, slots, count, units, &input);
        input.devices_max = desired->devices ? desired->devices : spec->elastic.devices_max;
        input.stages_wanted = desired->stages;
        input.replicas_wanted = desired->replicas;
        status = spec->elastic.shadow ? shadow_stages_layout(&input, plan, NULL, NULL, error)
                                      : planner_run(&input, &plan->layout, NULL, NULL, error);
    }
    plan_free(plan);
    return status;
}

int job_fit(const struct cluster *cluster, const struct job_spec *spec,
            const struct desired_record *desired, struct error *error)
{
    AUTO_FREE struct planner_slot *slots = NULL;
    unsigned count = 0;
    struct error why = {0};
    int status = plan_slots_of(cluster, &slots, &count, error);

    if (status || count == 0)
        return status;
    status = find_layout(spec, desired, slots, count, &why);
    if (status)
        return error_set(error, status,
                         "job %s cannot have this layout: %.512s (%u slot%s in service on %zu "
                         "node%s; the job is unchanged)",
                         spec->name, why.text, count, count == 1 ? " is" : "s are",
                         cluster->node_count, plural(cluster->node_count));
    return 0;
}
