#include "worker/session/plan_match.h"

#include <errno.h>
#include <string.h>

#include "comm/mesh/frame.h"

/* A CPU slot's identity continues with the threads, which firnd assigns to its workers. */
static bool begins_with(const char *arithmetic, const char *identity)
{
    size_t length = strlen(identity);

    return strncmp(arithmetic, identity, length) == 0 &&
           (arithmetic[length] == '\0' || arithmetic[length] == ',');
}

int plan_match_check(const struct plan *plan, enum kernel_backend device, struct error *error)
{
    char identity[PLAN_NUMERICS_SIZE];

    if (plan->links.protocol && plan->links.protocol != frame_version())
        return error_set(error, -EPROTONOSUPPORT,
                         "this firn-worker speaks link protocol %u, its firnd registered %u: "
                         "restart firnd",
                         frame_version(), plan->links.protocol);
    if (!plan->numerics[0])
        return 0;
    int status = kernel_backend_identity(device, identity, sizeof(identity), error);
    if (!status && !begins_with(plan->numerics, identity))
        status = error_set(error, -EPROTONOSUPPORT,
                           "this firn-worker computes with %.127s, its firnd registered %.127s: "
                           "restart firnd",
                           identity, plan->numerics);
    return status;
}
