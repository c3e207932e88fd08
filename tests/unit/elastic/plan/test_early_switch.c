/* Tests of the decision to begin a planned change within a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/compiler.h"
#include "elastic/plan/early_switch.h"

#define WORKERS_MAX 8

/* Stages x replicas on the slots 0, 1, ... of node "a", from @first_slot on. */
struct sample {
    struct plan plan;
    struct plan_worker workers[WORKERS_MAX];
    unsigned first_unit[4], first_lane[WORKERS_MAX + 1];
};

static void sample_init(struct sample *sample, unsigned stages, unsigned replicas,
                        unsigned first_slot)
{
    *sample = (struct sample){.first_unit = {0, 3, 6, 9}};
    sample->plan = (struct plan){.generation = 7};
    sample->plan.layout = (struct plan_layout){.stage_count = stages,
                                               .replica_count = replicas,
                                               .worker_count = stages * replicas,
                                               .workers = sample->workers,
                                               .stage_first_unit = sample->first_unit,
                                               .replica_first_lane = sample->first_lane};
    for (unsigned rank = 0; rank < stages * replicas; rank++) {
        snprintf(sample->workers[rank].node, sizeof(sample->workers[rank].node), "a");
        sample->workers[rank].slot = first_slot + rank;
    }
}

static void follow(struct sample *next, const struct sample *sample)
{
    next->plan.generation = sample->plan.generation + 1;
    next->plan.follows = sample->plan.generation;
    next->plan.change.planned = true;
}

static void test_added_replicas_begin_at_once(void **state)
{
    struct sample one, two;

    (void)state;
    sample_init(&one, 2, 1, 0);
    sample_init(&two, 2, 2, 0);
    follow(&two, &one);
    assert_true(early_switch_pays(&one.plan, &two.plan, 10, 0));
    assert_false(early_switch_pays(&one.plan, &two.plan, 0.9, 0)); /* half of it is gained */
    assert_true(early_switch_pays(&one.plan, &two.plan, 1.1, 0));
    assert_false(early_switch_pays(&one.plan, &two.plan, 10, 3)); /* switches take long here */
}

static void test_predictions_count(void **state)
{
    struct sample one, two;

    (void)state;
    sample_init(&one, 1, 1, 0);
    sample_init(&two, 1, 2, 0);
    follow(&two, &one);
    one.plan.layout.predicted_step_seconds = 10;
    two.plan.layout.predicted_step_seconds = 9.9; /* the new slot is slow */
    assert_false(early_switch_pays(&one.plan, &two.plan, 10, 0));
    two.plan.layout.predicted_step_seconds = 5;
    assert_true(early_switch_pays(&one.plan, &two.plan, 10, 0));
    two.plan.layout.predicted_step_seconds = 12;
    assert_false(early_switch_pays(&one.plan, &two.plan, 1000, 0));
}

static void test_other_changes_wait_for_the_boundary(void **state)
{
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 2, 2, 0);
    sample_init(&next, 2, 1, 0); /* a replica leaves */
    follow(&next, &plan);
    assert_false(early_switch_keeps_sums(&plan.plan, &next.plan));
    sample_init(&next, 2, 3, 0); /* slot 0 is not in it */
    for (unsigned rank = 0; rank < 6; rank++)
        next.workers[rank].slot++;
    follow(&next, &plan);
    assert_false(early_switch_keeps_sums(&plan.plan, &next.plan));
    sample_init(&next, 2, 3, 0); /* two workers exchange their stages */
    next.workers[0].slot = 1;
    next.workers[1].slot = 0;
    follow(&next, &plan);
    assert_false(early_switch_keeps_sums(&plan.plan, &next.plan));
    sample_init(&next, 2, 3, 0); /* another unit on the first stage */
    next.first_unit[1] = 4;
    follow(&next, &plan);
    assert_false(early_switch_keeps_sums(&plan.plan, &next.plan));
    sample_init(&next, 1, 6, 0);
    follow(&next, &plan);
    assert_false(early_switch_keeps_sums(&plan.plan, &next.plan));
    sample_init(&next, 2, 3, 0); /* replicas may change their places */
    for (unsigned rank = 0; rank < 6; rank++)
        next.workers[rank].slot = (rank + 2) % 6;
    follow(&next, &plan);
    assert_true(early_switch_keeps_sums(&plan.plan, &next.plan));
}

static void test_pauses_and_plans_after_others_wait(void **state)
{
    struct sample plan, next, pause;

    (void)state;
    sample_init(&plan, 1, 1, 0);
    sample_init(&pause, 1, 0, 0);
    follow(&pause, &plan);
    assert_false(early_switch_pays(&plan.plan, &pause.plan, 1000, 0));
    sample_init(&next, 1, 2, 0);
    follow(&next, &plan);
    next.plan.follows--;
    assert_false(early_switch_pays(&plan.plan, &next.plan, 1000, 0));
    follow(&next, &plan);
    next.plan.change.planned = false;
    assert_false(early_switch_pays(&plan.plan, &next.plan, 1000, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_replicas_begin_at_once),
        cmocka_unit_test(test_predictions_count),
        cmocka_unit_test(test_other_changes_wait_for_the_boundary),
        cmocka_unit_test(test_pauses_and_plans_after_others_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
