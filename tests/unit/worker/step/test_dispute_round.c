/*
 * Tests of replicas with different gradients or state: all ranks receive the same verdict wherever
 * the differing rank is in the tree, and each draws its own consequence. Over real links, one
 * thread for each rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "lib/comm/mesh_harness.h"

#include "lib/elastic/ranked_plan.h"
#include "worker/state/state.h"
#include "worker/step/dispute_round.h"

#define RANKS 11 /* two levels below the root */
#define UNITS 4
#define STEP  41

static void expect(const struct dispute_verdict *verdict, bool settled, unsigned accused)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < verdict->accused_count; i++)
        seen |= 1u << verdict->accused[i];
    assert_int_equal(verdict->settled, settled);
    assert_int_equal(seen, accused);
}

struct rank {
    struct world *world;
    const struct plan *plan;
    unsigned rank;
    struct dispute_verdict_claim claim;
    struct dispute_verdict verdict;
    int status;
    pthread_t thread;
};

static void *run_rank(void *context)
{
    struct rank *rank = context;

    rank->status = dispute_round_run(rank->world->meshes[rank->rank], &rank->plan->layout,
                                     rank->rank, STEP, &rank->claim, 1, &rank->verdict);
    mesh_abort(rank->world->meshes[rank->rank], "goes"); /* no rank may miss the verdict by it */
    return NULL;
}

/* No rank is taken out of service by a dispute without a difference, for any cause of it. */
static void test_a_dispute_about_nothing_has_no_verdict(void **state)
{
    struct rank ranks[2];
    struct world world;
    struct plan *plan = ranked_plan(2);

    (void)state;
    world_init(&world, 2);
    world_open(&world);
    for (unsigned i = 0; i < 2; i++) {
        ranks[i] = (struct rank){.world = &world, .plan = plan, .rank = i, .claim = {i, 2, 7}};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    assert_int_equal(ranks[0].status, -EBADMSG);
    assert_int_equal(ranks[1].status, -ECONNRESET);
    world_close(&world);
    world_done(&world);
    plan_free(plan);
}

static void test_all_hear_the_verdict(void **state)
{
    static const unsigned counts[] = {2, 3, RANKS};

    (void)state;
    for (size_t c = 0; c < ARRAY_COUNT(counts); c++)
        for (unsigned odd = 0; odd < counts[c]; odd++) {
            unsigned count = counts[c];
            struct rank *ranks = calloc(count, sizeof(*ranks));
            struct world world;
            struct plan *plan = ranked_plan(count);
            assert_non_null(ranks);
            world_init(&world, count);
            world_open(&world);
            for (unsigned i = 0; i < count; i++) {
                ranks[i] = (struct rank){
                    .world = &world, .plan = plan, .rank = i, .claim = {i, 2, 7 + (i == odd)}};
                assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
            }
            for (unsigned i = 0; i < count; i++)
                assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
            for (unsigned i = 0; i < count; i++) {
                assert_int_equal(ranks[i].status, 0);
                assert_int_equal(ranks[i].verdict.unit, 2);
                assert_int_equal(ranks[i].verdict.holders, count);
                expect(&ranks[i].verdict, count > 2, count > 2 ? 1u << odd : 0x3);
            }
            world_close(&world);
            world_done(&world);
            plan_free(plan);
            free(ranks);
        }
}

/* ---- state and gradients held after a dispute ---- */

struct settler {
    struct world *world;
    const struct plan *plan;
    unsigned rank;
    enum dispute_about about;
    bool dies; /* instead of asking */
    struct job_spec spec;
    struct state state;
    struct unit_digests digests;
    struct dispute_memory memory;
    int status;
    pthread_t thread;
};

static void *run_settler(void *context)
{
    struct settler *settler = context;
    struct mesh *mesh = settler->world->meshes[settler->rank];
    struct error error = {0};

    if (!settler->dies)
        settler->status =
            dispute_round_settle(mesh, &settler->plan->layout, settler->rank, settler->about, STEP,
                                 &settler->state, &settler->digests, &settler->memory, &error);
    mesh_abort(mesh, "goes");
    return NULL;
}

struct settling {
    enum dispute_about about;
    unsigned count;
    bool dies; /* the last rank, meanwhile */
    struct dispute_memory before, after;
    int statuses[3];
};

/* All ranks except rank 0 agree in the disputed value, and all ranks agree in the other one. */
static void settle(const struct settling *settling)
{
    unsigned count = settling->count;
    bool gradients = settling->about == DISPUTE_GRADIENTS;
    struct settler *settlers = calloc(count, sizeof(*settlers));
    struct world world;
    struct plan *plan = ranked_plan(count);

    assert_non_null(settlers);
    world_init(&world, count);
    world_open(&world);
    for (unsigned i = 0; i < count; i++) {
        struct settler *settler = &settlers[i];
        *settler = (struct settler){.world = &world,
                                    .plan = plan,
                                    .rank = i,
                                    .about = settling->about,
                                    .dies = settling->dies && i == count - 1,
                                    .spec = {.checkpoint.every = 10},
                                    .memory = settling->before};
        settler->state = (struct state){.spec = &settler->spec, .holds = true, .unit_count = UNITS};
        step_record_init(&settler->state.hold, STEP, UNITS, 1);
        settler->state.hold.unit_squares[1] = gradients && i == 0 ? 0.5 : 0.25;
        settler->digests.known[2] = true;
        settler->digests.values[2] = !gradients && i == 0;
        assert_int_equal(pthread_create(&settler->thread, NULL, run_settler, settler), 0);
    }
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_join(settlers[i].thread, NULL), 0);
    for (unsigned i = 0; i < count - settling->dies; i++) {
        assert_int_equal(settlers[i].status, settling->statuses[i]);
        assert_int_equal(settlers[i].memory.gradients_step, settling->after.gradients_step);
        assert_int_equal(settlers[i].memory.state_step, settling->after.state_step);
        assert_false(settlers[i].state.holds);
    }
    world_close(&world);
    world_done(&world);
    plan_free(plan);
    free(settlers);
}

/* This matters most if a rank died before the verdict: the others may all agree, and be wrong. */
static void test_nobody_holds_a_disputed_step(void **state)
{
    static const struct settling cases[] = {
        {DISPUTE_GRADIENTS, 3, false, {0}, {0}, {-ENOTRECOVERABLE, -ECONNRESET, -ECONNRESET}},
        {DISPUTE_GRADIENTS, 2, false, {0}, {STEP, 0}, {-EAGAIN, -EAGAIN}},
        {DISPUTE_GRADIENTS, 2, false, {STEP, 0}, {STEP, 0}, {-ENOTRECOVERABLE, -ENOTRECOVERABLE}},
        {DISPUTE_GRADIENTS, 3, true, {0}, {0}, {-ECONNRESET, -ECONNRESET}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        settle(&cases[i]);
}

/*
 * No rank keeps the disputed state; a rank that corrupts bits twice within a checkpoint interval
 * leaves.
 */
static void test_nobody_keeps_a_disputed_state(void **state)
{
    static const struct settling cases[] = {
        {DISPUTE_STATE, 3, false, {0}, {0}, {-ENOTRECOVERABLE, -EUCLEAN, -EUCLEAN}},
        {DISPUTE_STATE, 2, false, {STEP, 0}, {STEP, STEP}, {-EUCLEAN, -EUCLEAN}},
        {DISPUTE_STATE, 2, false, {0, STEP - 11}, {0, STEP}, {-EUCLEAN, -EUCLEAN}},
        {DISPUTE_STATE, 2, false, {0, STEP - 10}, {0, STEP}, {-ENOTRECOVERABLE, -ENOTRECOVERABLE}},
        {DISPUTE_STATE, 3, true, {0}, {0}, {-EUCLEAN, -EUCLEAN}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        settle(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hear_the_verdict),
        cmocka_unit_test(test_a_dispute_about_nothing_has_no_verdict),
        cmocka_unit_test(test_nobody_holds_a_disputed_step),
        cmocka_unit_test(test_nobody_keeps_a_disputed_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
