/*
 * A firn-worker binary that was replaced under its firnd is a failure of the slot. If the node
 * refused the job instead, the job would fail for good once all its nodes refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "integration/worker_crew.h"

static bool has_answered(const struct crew *crew, void *context)
{
    (void)context;
    return crew->workers[0].status.phase != WORKER_STARTING;
}

static void test_its_slot_is_out_of_service(void **state)
{
    struct job_spec spec = crew_job("replaced", CREW_GPT2, 4, 1, 1);
    struct crew crew;

    (void)state;
    crew_init(&crew, &spec);
    crew_spawn(&crew, 0);
    struct plan *plan = crew_plan(&crew, 1, 1);
    plan->links.protocol = PLAN_LINKS_MAX;
    crew_send(&crew, plan, CONTROL_PREPARE);
    crew_pump(&crew, has_answered, NULL, 30);
    assert_int_equal(crew.workers[0].status.phase, WORKER_BAD);
    assert_non_null(strstr(crew.workers[0].status.text, "restart firnd"));
    plan_free(plan);
    crew_done(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_its_slot_is_out_of_service)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
