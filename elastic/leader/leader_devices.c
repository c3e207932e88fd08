/* The number of devices that the job may have: the bounds that the user asked for last. */
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"

unsigned leader_devices_max(const struct leader_view *view)
{
    unsigned wanted = view->wish.devices, allowed = view->spec->elastic.devices_max;
    return wanted != 0 ? wanted : allowed != 0 ? allowed : JOB_DEVICES_MAX;
}

unsigned leader_devices_min(const struct leader_view *view)
{
    unsigned least = MAX(view->spec->elastic.devices_min, 1u);
    /* A job that only needs to be saved and put aside takes any number of slots. */
    return view->wish.desired == JOB_DESIRED_RUNNING ? MIN(least, leader_devices_max(view)) : 1;
}

bool leader_wants(const struct leader_view *view, const struct plan_layout *layout)
{
    const struct leader_wish *wish = &view->wish;
    return layout->worker_count <= leader_devices_max(view) &&
           (wish->stages == 0 || wish->stages == layout->stage_count) &&
           (wish->replicas == 0 || wish->replicas == layout->replica_count);
}

bool leader_regrets(const struct leader_view *view, const struct plan *plan)
{
    unsigned asked = plan->change.asked_devices;
    return !leader_wants(view, &plan->layout) || (asked > 0 && leader_devices_max(view) > asked);
}

unsigned leader_devices_now(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    unsigned most = leader_devices_max(view), gives = context->gives;
    bool can_give = gives > 0 && view->plan && view->plan->layout.worker_count > gives;
    return can_give ? MIN(most, view->plan->layout.worker_count - gives) : most;
}
