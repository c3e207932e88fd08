/*
 * Tests that exactly the ranks with other training data than the run's leave; if the wrong ranks
 * are unknown, all leave. Over real links, one thread for each rank.
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
#include "worker/session/data_agreement.h"

#define RANKS 11 /* two levels below the root */

struct voter {
    struct world *world;
    const struct plan *plan;
    unsigned rank;
    uint64_t digest, known;
    int status;
    struct error error;
    pthread_t thread;
};

static void *vote(void *context)
{
    struct voter *voter = context;

    voter->status = data_agreement_run(voter->world->meshes[voter->rank], &voter->plan->layout,
                                       voter->rank, voter->digest, voter->known, &voter->error);
    if (voter->status) /* as in the worker: the links of a leaving rank break at once */
        mesh_abort(voter->world->meshes[voter->rank], "has other data");
    return NULL;
}

/*
 * Let all ranks vote and return a bit for each rank that leaves; @digests and @known are by rank
 * (NULL: nothing is known).
 */
static unsigned who_goes(unsigned count, const uint64_t *digests, const uint64_t *known,
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
                                   .digest = digests[i],
                                   .known = known ? known[i] : 0};
        assert_int_equal(pthread_create(&voters[i].thread, NULL, vote, &voters[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(voters[i].thread, NULL), 0);
        if (voters[i].status == 0)
            continue;
        assert_int_equal(voters[i].status, -EILSEQ);
        if (!strstr(voters[i].error.text, words))
            fail_msg("\"%s\" does not say \"%s\"", voters[i].error.text, words);
        goes |= 1u << i;
    }
    world_close(&world);
    world_done(&world);
    plan_free(plan);
    return goes;
}

static void test_all_have_the_same(void **state)
{
    uint64_t digests[RANKS];

    (void)state;
    for (unsigned i = 0; i < RANKS; i++)
        digests[i] = 7;
    assert_int_equal(who_goes(RANKS, digests, NULL, ""), 0);
    assert_int_equal(who_goes(1, digests, NULL, ""), 0);
}

/* The differing rank may be anywhere in the tree: the root, an inner rank, a leaf. */
static void test_the_few_go(void **state)
{
    static const unsigned odd[] = {0, 1, 4, RANKS - 1};

    (void)state;
    for (size_t k = 0; k < sizeof(odd) / sizeof(odd[0]); k++) {
        uint64_t digests[RANKS];
        for (unsigned i = 0; i < RANKS; i++)
            digests[i] = i == odd[k] ? 8 : 7;
        assert_int_equal(who_goes(RANKS, digests, NULL, "than most other nodes"), 1u << odd[k]);
    }
}

/* The data that the state was trained on outweigh any number of nodes. */
static void test_the_run_counts_more_than_the_many(void **state)
{
    static const uint64_t digests[] = {8, 8, 7, 8}, known[] = {0, 7, 0, 0}, all[] = {7, 7, 7, 7};

    (void)state;
    assert_int_equal(who_goes(4, digests, known, "was trained on so far"), 0xb);
    assert_int_equal(who_goes(4, digests, all, "was trained on so far"), 0xb);
    assert_int_equal(who_goes(2, digests, known, "was trained on so far"), 0x3); /* the two agree */
}

static void test_without_a_majority_all_go(void **state)
{
    static const uint64_t two[] = {7, 8}, three[] = {7, 8, 9}, four[] = {7, 8, 8, 7};
    uint64_t many[RANKS]; /* more kinds than are counted */

    (void)state;
    assert_int_equal(who_goes(2, two, NULL, "more than half"), 0x3);
    assert_int_equal(who_goes(3, three, NULL, "more than half"), 0x7);
    assert_int_equal(who_goes(4, four, NULL, "more than half"), 0xf);
    for (unsigned i = 0; i < RANKS; i++)
        many[i] = 100 + i;
    assert_int_equal(who_goes(RANKS, many, NULL, "more than half"), (1u << RANKS) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_have_the_same),
        cmocka_unit_test(test_the_few_go),
        cmocka_unit_test(test_the_run_counts_more_than_the_many),
        cmocka_unit_test(test_without_a_majority_all_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
