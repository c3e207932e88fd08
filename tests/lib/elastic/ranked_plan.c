#include "lib/elastic/ranked_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct plan *ranked_plan(unsigned count)
{
    struct plan *plan = plan_new();

    assert_non_null(plan);
    plan->layout.worker_count = count;
    plan->layout.workers = calloc(count, sizeof(*plan->layout.workers));
    assert_non_null(plan->layout.workers);
    for (unsigned i = 0; i < count; i++)
        snprintf(plan->layout.workers[i].node, NAME_SIZE, "n%u", i);
    return plan;
}
