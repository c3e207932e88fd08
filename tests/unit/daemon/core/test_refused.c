/*
 * Tests of the records that a leader skips, and of the workers whose reports it accepts for that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/core/refused.h"
#include "lib/elastic/sample_plan.h"

static void test_a_record_is_refused_by_its_revision(void **state)
{
    struct refused_checkpoints refused = {0};

    (void)state;
    assert_null(refused_unasked(NULL, 7));
    assert_null(refused_unasked(&refused, 0));
    refused_add(&refused, 7, "");
    refused_add(&refused, 7, "");
    assert_int_equal(refused.count, 1);
    assert_string_equal(refused_unasked(&refused, 7), "");
    assert_null(refused_unasked(&refused, 8)); /* rewritten */
}

static void test_damage_is_told_from_other_causes(void **state)
{
    struct refused_checkpoints refused = {0};

    (void)state;
    refused_add(&refused, 7, "");
    assert_null(refused_damage(&refused, 7));
    refused_add_damaged(&refused, 7, "chunk 3 is bad");
    assert_string_equal(refused_damage(&refused, 7), "chunk 3 is bad");
    assert_string_equal(refused_unasked(&refused, 7), "");
    assert_null(refused_damage(&refused, 8));
    assert_null(refused_damage(NULL, 7));
}

static void test_who_was_not_asked_is_kept_up_to_date(void **state)
{
    struct refused_checkpoints refused = {0};

    (void)state;
    refused_add(&refused, 7, "b+c");
    assert_string_equal(refused_unasked(&refused, 7), "b+c");
    refused_add(&refused, 7, "c"); /* b is back, and lacks it, too */
    assert_string_equal(refused_unasked(&refused, 7), "c");
    assert_int_equal(refused.count, 1);
}

static void test_the_oldest_is_forgotten(void **state)
{
    struct refused_checkpoints refused = {0};

    (void)state;
    for (int64_t revision = 1; revision <= REFUSED_MAX + 3; revision++)
        refused_add(&refused, revision, "");
    assert_int_equal(refused.count, REFUSED_MAX);
    assert_null(refused_unasked(&refused, 3));
    assert_non_null(refused_unasked(&refused, 4));
    assert_non_null(refused_unasked(&refused, REFUSED_MAX + 3));
}

static void test_only_what_was_given_up_is_taken_back(void **state)
{
    struct refused_checkpoints refused = {0};

    (void)state;
    refused_add(&refused, 7, "");
    refused_add(&refused, 8, "b+c");
    refused_add_damaged(&refused, 9, "chunk 3 is bad");
    refused_take_back(&refused);
    assert_null(refused_unasked(&refused, 7));
    assert_string_equal(refused_unasked(&refused, 8), "b+c");
    assert_string_equal(refused_damage(&refused, 9), "chunk 3 is bad");
    refused_add(&refused, 7, ""); /* out of reach as before */
    assert_string_equal(refused_unasked(&refused, 7), "");
}

static struct node_report *one_report(const struct plan *plan)
{
    struct node_report *report = calloc(1, sizeof(*report));

    assert_non_null(report);
    snprintf(report->node, sizeof(report->node), "%s", plan->layout.workers[0].node);
    report->generation = plan->generation;
    report->worker_count = 1;
    report->workers[0].slot = plan->layout.workers[0].slot;
    report->workers[0].phase = WORKER_STUCK;
    report->workers[0].generation = plan->generation;
    report->workers[0].cause = CAUSE_CHECKPOINT_LOST;
    return report;
}

static void test_only_a_worker_of_the_plan_is_a_witness(void **state)
{
    struct plan *plan = sample_plan();
    AUTO_FREE struct node_report *report = one_report(plan);
    const struct node_report *seen = report;
    struct worker_report *worker = &report->workers[0];

    (void)state;
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    assert_ptr_equal(refused_witness(plan, &seen, 1), worker);
    assert_null(refused_witness(NULL, &seen, 1));
    assert_null(refused_witness(plan, NULL, 0));

    worker->cause = CAUSE_NONE;
    assert_null(refused_witness(plan, &seen, 1));
    worker->cause = CAUSE_CHECKPOINT_LOST;
    worker->phase = WORKER_DEAD;
    assert_null(refused_witness(plan, &seen, 1));
    worker->phase = WORKER_STUCK;
    worker->generation--; /* its report is under the plan before */
    assert_null(refused_witness(plan, &seen, 1));
    worker->generation++;
    worker->slot = 63;
    assert_null(refused_witness(plan, &seen, 1));
    worker->slot = plan->layout.workers[0].slot;
    plan->start.source = PLAN_SOURCE_MEMORY;
    assert_null(refused_witness(plan, &seen, 1));
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_refused_by_its_revision),
        cmocka_unit_test(test_damage_is_told_from_other_causes),
        cmocka_unit_test(test_who_was_not_asked_is_kept_up_to_date),
        cmocka_unit_test(test_the_oldest_is_forgotten),
        cmocka_unit_test(test_only_what_was_given_up_is_taken_back),
        cmocka_unit_test(test_only_a_worker_of_the_plan_is_a_witness),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
