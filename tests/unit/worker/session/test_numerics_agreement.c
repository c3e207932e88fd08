/*
 * Tests that exactly the ranks whose libraries chose another algorithm for a shape leave, and name
 * it. Over real links, one thread for each rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"

#include "lib/elastic/ranked_plan.h"
#include "worker/session/numerics_agreement.h"

#define RANKS 11 /* two levels below the root */

struct voter {
    struct world *world;
    const struct plan *plan;
    unsigned rank;
    const char *description;
    bool trained;
    int status;
    struct error error;
    pthread_t thread;
};

static void *vote(void *context)
{
    struct voter *voter = context;

    voter->status =
        numerics_agreement_run(voter->world->meshes[voter->rank], &voter->plan->layout, voter->rank,
                               voter->description, voter->trained, &voter->error);
    if (voter->status) /* as in the worker: the links of a leaving rank break at once */
        mesh_abort(voter->world->meshes[voter->rank], "computes otherwise");
    return NULL;
}

/* Let all ranks vote and return a bit for each rank that leaves. @trained: a bit for each rank that
 * has trained before. */
static unsigned who_goes(unsigned count, const char *const *descriptions, unsigned trained,
                         const char *words)
{
    struct voter voters[RANKS] = {0};
    struct world world;
    struct plan *plan = ranked_plan(count);
    unsigned goes = 0;

    world_init(&world, count);
    world_open(&world);
    for (unsigned i = 0; i < count; i++) {
        voters[i] = (struct voter){.world = &world,
                                   .plan = plan,
                                   .rank = i,
                                   .description = descriptions[i],
                                   .trained = trained >> i & 1};
        assert_int_equal(pthread_create(&voters[i].thread, NULL, vote, &voters[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(voters[i].thread, NULL), 0);
        if (voters[i].status == 0)
            continue;
        assert_int_equal(voters[i].status, -ENOTRECOVERABLE);
        if (!strstr(voters[i].error.text, words))
            fail_msg("\"%s\" does not say \"%s\"", voters[i].error.text, words);
        goes |= 1u << i;
    }
    world_close(&world);
    world_done(&world);
    plan_free(plan);
    return goes;
}

static const char usual[] =
    "GPU 0: H100, bf16\n8x8x8 flags 0c: algorithm 7\n9x9x9 flags 0c: plain\n";
static const char other[] =
    "GPU 1: H100, bf16\n8x8x8 flags 0c: algorithm 8\n9x9x9 flags 0c: plain\n";

static void test_all_compute_alike(void **state)
{
    /* the number of the device is no choice; other stages have other shapes; reasons may differ */
    static const char *const alike[] = {
        "GPU 0: H100, bf16\n8x8x8: algorithm 7\nattention 8x16: own kernels (no cuDNN: /a/b.so: none)",
        "GPU 1: H100, bf16\n8x8x8: algorithm 7\n5x5x5: plain\n",
        "GPU 2: H100, bf16\nattention 8x16: own kernels (no cuDNN: /c.so: (none) at all)\n",
        "",
    };

    (void)state;
    assert_int_equal(who_goes(4, alike, 0, ""), 0);
    assert_int_equal(who_goes(1, alike, 0, ""), 0);
}

/* The differing rank may be anywhere in the tree: the root, an inner rank, a leaf. */
static void test_the_few_go(void **state)
{
    static const unsigned odd[] = {0, 1, 4, RANKS - 1};

    (void)state;
    for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
        const char *descriptions[RANKS];
        for (unsigned i = 0; i < RANKS; i++)
            descriptions[i] = i == odd[k] ? other : usual;
        assert_int_equal(
            who_goes(RANKS, descriptions, 0, "computes 8x8x8 flags 0c with algorithm 8, other"),
            1u << odd[k]);
    }
}

/* The bits of the run so far come from the workers that have trained. */
static void test_a_worker_that_has_trained_stays(void **state)
{
    static const char *const descriptions[] = {other, other, usual, other};

    (void)state;
    assert_int_equal(who_goes(4, descriptions, 0x4, "with algorithm 8"), 0xb);
    assert_int_equal(who_goes(4, descriptions, 0x5, "with algorithm 7"), 0x4);
}

/* Two workers cannot outvote each other: the lower rank stays, so that the job continues. */
static void test_of_two_the_lower_rank_stays(void **state)
{
    static const char *const descriptions[] = {usual, other};

    (void)state;
    assert_int_equal(who_goes(2, descriptions, 0, "with algorithm 8"), 0x2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_compute_alike),
        cmocka_unit_test(test_the_few_go),
        cmocka_unit_test(test_a_worker_that_has_trained_stays),
        cmocka_unit_test(test_of_two_the_lower_rank_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
