/*
 * Tests of the choice of stragglers, from times alone: a rank that stays slow among its peers is
 * one; noise, one slow step, a slow start and a cluster slow as a whole make no straggler.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "elastic/plan/straggler.h"

#define STEPS   10
#define FACTOR  2.0
#define LANE_NS 1000000u

struct bench {
    struct plan *plan;
    struct straggler *straggler;
    uint64_t busy_ns[JOB_DEVICES_MAX];
};

static struct plan *plan_of(unsigned stages, unsigned replicas, const unsigned *lanes)
{
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->layout.stage_count = stages;
    plan->layout.replica_count = replicas;
    plan->layout.worker_count = stages * replicas;
    plan->layout.workers = calloc(plan->layout.worker_count, sizeof(*plan->layout.workers));
    plan->layout.replica_first_lane = calloc(replicas + 1, sizeof(unsigned));
    assert_true(plan->layout.workers && plan->layout.replica_first_lane);
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        snprintf(plan->layout.workers[rank].node, NAME_SIZE, "n%u", rank);
    for (unsigned i = 0; i < replicas; i++)
        plan->layout.replica_first_lane[i + 1] =
            plan->layout.replica_first_lane[i] + (lanes ? lanes[i] : 2);
    return plan;
}

static unsigned lanes_of(const struct bench *bench, unsigned rank)
{
    const unsigned *first =
        &bench->plan->layout.replica_first_lane[rank / bench->plan->layout.stage_count];
    return first[1] - first[0];
}

static void begin(struct bench *bench)
{
    assert_int_equal(straggler_new(bench->plan, FACTOR, STEPS, &bench->straggler), 0);
}

static struct bench bench_of(unsigned stages, unsigned replicas)
{
    struct bench bench = {.plan = plan_of(stages, replicas, NULL)};
    begin(&bench);
    return bench;
}

static void done(struct bench *bench)
{
    straggler_free(bench->straggler);
    plan_free(bench->plan);
}

/* Run one step in which each rank takes @slowness for a lane. */
static void step(struct bench *bench, const double *slowness)
{
    for (unsigned rank = 0; rank < bench->plan->layout.worker_count; rank++)
        bench->busy_ns[rank] = (uint64_t)(slowness[rank] * LANE_NS) * lanes_of(bench, rank);
    straggler_step(bench->straggler, bench->busy_ns);
}

static void steps(struct bench *bench, unsigned count, const double *slowness)
{
    for (unsigned i = 0; i < count; i++)
        step(bench, slowness);
}

static unsigned judgements(const struct bench *bench, struct straggler_judgement *ret_first)
{
    struct straggler_judgement list[STRAGGLER_JUDGEMENTS_MAX] = {{0}};
    unsigned count = straggler_judgements(bench->straggler, list);
    if (ret_first != NULL)
        *ret_first = list[0];
    return count;
}

static const double even[4] = {1, 1, 1, 1};

static void test_the_slow_one_is_found_in_bounded_time(void **state)
{
    (void)state;
    for (unsigned calm = 0; calm < 2 * STEPS; calm++) {
        struct bench bench = bench_of(1, 3);
        struct straggler_judgement judgement;
        steps(&bench, 1 + calm, even);
        assert_int_equal(judgements(&bench, NULL), 0);
        steps(&bench, 2 * STEPS, (double[]){1, 3, 1});
        assert_int_equal(judgements(&bench, &judgement), 1);
        assert_int_equal(judgement.rank, 1);
        assert_true(judgement.speed > 0.33 && judgement.speed < 0.5);
        done(&bench);
    }
}

static void test_less_than_the_factor_is_nobodys_fault(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    steps(&bench, 10 * STEPS, (double[]){1, 1.9});
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static void test_lanes_do_not_make_slow(void **state)
{
    (void)state;
    struct bench bench = {.plan = plan_of(1, 2, (unsigned[]){5, 1})};
    begin(&bench);
    steps(&bench, 3 * STEPS, even);
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static void test_one_slow_step_counts_for_nothing(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 2 * STEPS; at++) {
        struct bench bench = bench_of(1, 2);
        steps(&bench, at, even);
        step(&bench, (double[]){1, 1000});
        steps(&bench, 3 * STEPS, even);
        assert_int_equal(judgements(&bench, NULL), 0);
        done(&bench);
    }
}

static void test_a_slow_start_is_over_soon(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    steps(&bench, 2, (double[]){1, 50}); /* the first step does not count, the second is only one */
    steps(&bench, 2 * STEPS, even);
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

/* A throttled process is stopped in some steps and not in others. */
static void test_stops_that_hit_some_steps_count(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    for (unsigned i = 0; i < 3 * STEPS; i++)
        step(&bench, i % 3 == 0 ? (double[]){1, 9} : even);
    assert_int_equal(judgements(&bench, NULL), 1);
    done(&bench);
}

static void test_noise_accuses_nobody(void **state)
{
    (void)state;
    struct philox_key key = philox_key_make(7, 0);
    for (unsigned round = 0; round < 50; round++) {
        struct bench bench = bench_of(2, 2);
        for (unsigned i = 0; i < 20 * STEPS; i++) {
            uint32_t words[4];
            double slowness[4];
            philox_block(key, round, i, words);
            for (unsigned rank = 0; rank < 4; rank++)
                slowness[rank] = 1 + (words[rank] % 1000) / 1250.0;
            step(&bench, slowness);
            assert_int_equal(judgements(&bench, NULL), 0);
        }
        done(&bench);
    }
}

static void test_a_slow_cluster_is_not_a_slow_worker(void **state)
{
    (void)state;
    for (unsigned replicas = 1; replicas <= 2; replicas++) {
        struct bench bench = bench_of(4 / replicas, replicas);
        steps(&bench, 3 * STEPS, even);
        steps(&bench, 5 * STEPS, (double[]){5, 5, 5, 5});
        assert_int_equal(judgements(&bench, NULL), 0);
        done(&bench);
    }
}

static void test_two_slow_ones_do_not_hide_each_other(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 4);
    steps(&bench, 3 * STEPS, (double[]){3, 1, 3, 1});
    assert_int_equal(judgements(&bench, NULL), 2);
    done(&bench);
}

static void test_two_replicas_that_are_both_slow_are_equal(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    steps(&bench, 2 * STEPS, even);
    steps(&bench, 3 * STEPS, (double[]){3, 3});
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static void test_stages_are_not_compared_with_each_other(void **state)
{
    (void)state;
    struct bench bench = bench_of(2, 2); /* ranks 0 and 2 are stage 0 */
    struct straggler_judgement judgement;
    steps(&bench, 3 * STEPS, (double[]){1, 4, 1, 4});
    assert_int_equal(judgements(&bench, NULL), 0);
    steps(&bench, 2 * STEPS, (double[]){1, 4, 1, 12});
    assert_int_equal(judgements(&bench, &judgement), 1);
    assert_int_equal(judgement.rank, 3);
    done(&bench);
}

/*
 * With one replica a rank is compared with its own past, while the other ranks are as fast as
 * before.
 */
static void test_alone_a_worker_is_compared_with_its_past(void **state)
{
    (void)state;
    struct bench bench = bench_of(3, 1);
    struct straggler_judgement judgement;
    steps(&bench, 2 * STEPS, (double[]){1, 4, 1});
    assert_int_equal(judgements(&bench, NULL), 0);
    steps(&bench, 2 * STEPS, (double[]){1, 12, 1});
    assert_int_equal(judgements(&bench, &judgement), 1);
    assert_int_equal(judgement.rank, 1);
    done(&bench);
}

static void test_faster_peers_make_nobody_slow(void **state)
{
    (void)state;
    struct bench bench = bench_of(3, 1);
    steps(&bench, 2 * STEPS, even);
    steps(&bench, 3 * STEPS, (double[]){0.2, 1, 0.2});
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static void test_one_worker_has_no_peers(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 1);
    steps(&bench, 2 * STEPS, even);
    steps(&bench, 3 * STEPS, (double[]){9});
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

/* Near the threshold a judgement neither flaps nor outlives a recovery. */
static void test_a_judgement_stands_until_it_is_well_below(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    struct straggler_judgement first, later;
    steps(&bench, 1 + STEPS, (double[]){1, 2.6});
    assert_int_equal(judgements(&bench, &first), 1);
    for (unsigned i = 0; i < 6; i++) {
        steps(&bench, STEPS, i % 2 ? (double[]){1, 2.6} : (double[]){1, 1.8});
        assert_int_equal(judgements(&bench, &later), 1);
        assert_true(later.speed <= first.speed && later.speed >= first.speed);
    }
    steps(&bench, STEPS, even);
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static struct bench bench_with_known(double speed)
{
    struct bench bench = {.plan = plan_of(1, 2, NULL)};
    bench.plan->slow_count = 1;
    bench.plan->slow[0] = (struct plan_slow){.node = "n1", .speed = speed, .times = 1};
    begin(&bench);
    return bench;
}

static void test_what_the_plan_knows_is_not_told_again(void **state)
{
    (void)state;
    struct bench bench = bench_with_known(1.0 / 3);
    struct straggler_judgement judgement;
    steps(&bench, 5 * STEPS, (double[]){1, 3});
    assert_int_equal(judgements(&bench, NULL), 0);
    steps(&bench, 2 * STEPS, (double[]){1, 9});
    assert_int_equal(judgements(&bench, &judgement), 1);
    assert_true(judgement.speed < 0.15);
    done(&bench);
}

static void test_one_that_has_recovered_is_told(void **state)
{
    (void)state;
    struct bench bench = bench_with_known(1.0 / 3);
    struct straggler_judgement judgement;
    steps(&bench, 1 + STEPS, (double[]){1, 1.1});
    assert_int_equal(judgements(&bench, &judgement), 1);
    assert_true(judgement.rank == 1 && judgement.speed >= 1);
    done(&bench);
}

static void test_an_unknown_time_counts_for_nothing(void **state)
{
    (void)state;
    struct bench bench = bench_of(1, 2);
    for (unsigned i = 0; i < 10 * STEPS; i++)
        step(&bench, (double[]){0, 3});
    assert_int_equal(judgements(&bench, NULL), 0);
    /* The slow steps do not make the peer fast, either. */
    for (unsigned i = 0; i < 10 * STEPS; i++)
        step(&bench, (double[]){i % 2, 1.3});
    assert_int_equal(judgements(&bench, NULL), 0);
    done(&bench);
}

static void test_the_slowest_of_each_stage_for_people(void **state)
{
    (void)state;
    struct plan *plan = plan_of(2, 2, (unsigned[]){2, 1});
    struct straggler_stage stages[2];
    straggler_slowest(&plan->layout, (uint64_t[]){200, 0, 150, 40}, stages);
    assert_int_equal(stages[0].rank, 2); /* 150 for one lane is slower than 200 for two */
    assert_int_equal(stages[0].lane_ns, 150);
    assert_int_equal(stages[0].fastest_ns, 100);
    assert_int_equal(stages[1].rank, 3);
    assert_int_equal(stages[1].lane_ns, 40);
    assert_int_equal(stages[1].fastest_ns, 40);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_slow_one_is_found_in_bounded_time),
        cmocka_unit_test(test_less_than_the_factor_is_nobodys_fault),
        cmocka_unit_test(test_lanes_do_not_make_slow),
        cmocka_unit_test(test_one_slow_step_counts_for_nothing),
        cmocka_unit_test(test_a_slow_start_is_over_soon),
        cmocka_unit_test(test_stops_that_hit_some_steps_count),
        cmocka_unit_test(test_noise_accuses_nobody),
        cmocka_unit_test(test_a_slow_cluster_is_not_a_slow_worker),
        cmocka_unit_test(test_two_slow_ones_do_not_hide_each_other),
        cmocka_unit_test(test_two_replicas_that_are_both_slow_are_equal),
        cmocka_unit_test(test_stages_are_not_compared_with_each_other),
        cmocka_unit_test(test_alone_a_worker_is_compared_with_its_past),
        cmocka_unit_test(test_faster_peers_make_nobody_slow),
        cmocka_unit_test(test_one_worker_has_no_peers),
        cmocka_unit_test(test_a_judgement_stands_until_it_is_well_below),
        cmocka_unit_test(test_what_the_plan_knows_is_not_told_again),
        cmocka_unit_test(test_one_that_has_recovered_is_told),
        cmocka_unit_test(test_an_unknown_time_counts_for_nothing),
        cmocka_unit_test(test_the_slowest_of_each_stage_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
