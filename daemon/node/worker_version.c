#include "daemon/node/worker_version.h"

#include <stdio.h>

#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/node/numerics_identity.h"
#include "elastic/plan/plan.h"
#include "elastic/plan/versions.h"

#define ANSWER_SIZE 16

void worker_version_describe(const struct config *config, struct node_record *self)
{
    char answer[ANSWER_SIZE], *end;

    self->control = VERSIONS_CONTROL;
    self->control_oldest = VERSIONS_CONTROL_OLDEST;
    self->links = 0;
    if (!self->slot_count || !config->worker[0])
        return;
    numerics_identity_ask(config->worker, "protocol", "links", NUMERICS_IDENTITY_ANSWER_NS, answer,
                          sizeof(answer));
    unsigned long links = strtoul(answer, &end, 10);
    if (end == answer || *end || links > PLAN_LINKS_MAX)
        log_warning(
            "%s does not report its link protocol: this node shares jobs only with other nodes "
            "whose worker does not report it",
            config->worker);
    else
        self->links = (unsigned)links;
}
