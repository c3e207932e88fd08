/*
 * Tests of the commit exchange over real links, one thread for each rank: the complete record
 * reaches every rank from any distribution of its parts; a differing rank is named.
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

#include "lib/comm/mesh_harness.h"

#include "lib/elastic/ranked_plan.h"
#include "worker/step/commit_round.h"

#define RANKS 11 /* two levels below the root */
#define UNITS 6
#define LANES 8

struct rank {
    struct world *world;
    const struct plan *plan;
    unsigned rank;
    bool closing;
    struct commit_root root;
    struct step_commit_up up;
    struct step_commit_down down;
    int status;
    struct error error;
    pthread_t thread;
};

static void *run_rank(void *context)
{
    struct rank *rank = context;

    rank->status =
        commit_round_run(rank->world->meshes[rank->rank], rank->plan, rank->rank, rank->closing,
                         &rank->up, &rank->root, &rank->down, &rank->error);
    if (rank->status < 0) /* as in the worker: no rank waits for a rank that has given up */
        mesh_abort(rank->world->meshes[rank->rank], "the exchange failed");
    return NULL;
}

static struct plan *plan_of(unsigned count)
{
    struct plan *plan = ranked_plan(count);

    plan->layout.stage_count = 1;
    plan->layout.replica_count = count;
    plan->layout.replica_first_lane = calloc(count + 1, sizeof(unsigned));
    assert_non_null(plan->layout.replica_first_lane);
    for (unsigned i = 0; i < count; i++)
        plan->layout.replica_first_lane[i + 1] = plan->layout.replica_first_lane[i] + 1;
    return plan;
}

static double unit_square(unsigned unit)
{
    return 0.1 * (unit + 1);
}

static double lane_loss(unsigned lane)
{
    return 1.0 / (lane + 3);
}

/* Give every value to exactly one rank, and some values to two ranks. */
static void know(struct rank *rank, unsigned count, uint64_t step)
{
    struct step_record *record = &rank->up.record;

    step_record_init(record, step, UNITS, LANES);
    for (unsigned unit = 0; unit < UNITS; unit++)
        if (unit % count == rank->rank || (unit + 1) % count == rank->rank)
            record->unit_squares[unit] = unit_square(unit);
    for (unsigned lane = 0; lane < LANES; lane++)
        if (lane % count == rank->rank)
            record->lane_losses[lane] = lane_loss(lane);
}

/* Make the middle rank the slowest. */
static uint64_t busy_ns(unsigned rank)
{
    return 1000 + (rank == RANKS / 2 ? 500 : rank);
}

static void set_up(struct rank *ranks, struct world *world, const struct plan *plan, uint64_t step)
{
    for (unsigned i = 0; i < world->count; i++) {
        ranks[i] = (struct rank){.world = world, .plan = plan, .rank = i};
        memset(&ranks[i].down, 0xff, sizeof(ranks[i].down)); /* as from malloc() */
        ranks[i].up.data_digest = 77;
        ranks[i].up.checkpoint_durable = 100 + i;
        ranks[i].up.checkpoint_failed = i;
        ranks[i].up.unable = (struct checkpoint_writers_unable){.count = 1, .ranks = {i}};
        ranks[i].up.checkpoint_busy = step % 2 == 0 && i + 1 == world->count;
        ranks[i].up.busy_ns = busy_ns(i);
        ranks[i].up.digests.known[i % 3] = true; /* several ranks know it, and agree */
        ranks[i].up.digests.values[i % 3] = i % 3 + step;
        know(&ranks[i], world->count, step);
    }
}

static void run_all(struct rank *ranks, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
}

struct fixture {
    struct world world;
    struct plan *plan;
    struct rank *ranks;
    uint64_t steps; /* that were committed */
};

static void fixture_init(struct fixture *fixture, unsigned count)
{
    world_init(&fixture->world, count);
    world_open(&fixture->world);
    fixture->plan = plan_of(count);
    fixture->ranks = calloc(count, sizeof(*fixture->ranks));
    assert_non_null(fixture->ranks);
}

static void fixture_done(struct fixture *fixture)
{
    world_close(&fixture->world);
    world_done(&fixture->world);
    plan_free(fixture->plan);
    free(fixture->ranks);
}

static void check_committed(const struct rank *rank, unsigned count, uint64_t step)
{
    const struct step_record *record = &rank->down.record;

    if (rank->status)
        fail_msg("rank %u: %d %s", rank->rank, rank->status, rank->error.text);
    assert_int_equal(record->step, step);
    assert_true(step_record_complete(record));
    for (unsigned unit = 0; unit < UNITS; unit++)
        assert_memory_equal(&record->unit_squares[unit], &(double){unit_square(unit)}, 8);
    for (unsigned lane = 0; lane < LANES; lane++)
        assert_memory_equal(&record->lane_losses[lane], &(double){lane_loss(lane)}, 8);
    assert_int_equal(rank->down.checkpoint_durable, 100);
    assert_int_equal(rank->down.checkpoint_failed, count - 1);
    assert_int_equal(rank->down.unable.count, 1); /* of that step, not of earlier steps */
    assert_int_equal(rank->down.unable.ranks[0], count - 1);
    assert_int_equal(rank->down.checkpoint_busy, step % 2 == 0);
    assert_int_equal(rank->down.slowest[0].rank, count > RANKS / 2 ? RANKS / 2 : count - 1);
    assert_int_equal(rank->down.slowest[0].lane_ns, busy_ns(rank->down.slowest[0].rank));
    assert_int_equal(rank->down.slowest[0].fastest_ns, 1000);
    for (unsigned i = 0; rank->rank == 0 && i < count; i++)
        assert_int_equal(rank->down.busy_ns[i], busy_ns(i));
}

static void test_commit(void **state)
{
    static const unsigned counts[] = {1, 2, 3, RANKS};

    (void)state;
    for (size_t c = 0; c < ARRAY_COUNT(counts); c++) {
        struct fixture fixture;
        fixture_init(&fixture, counts[c]);
        for (uint64_t step = 5; step < 8; step++) {
            set_up(fixture.ranks, &fixture.world, fixture.plan, step);
            run_all(fixture.ranks, counts[c]);
            for (unsigned i = 0; i < counts[c]; i++) {
                check_committed(&fixture.ranks[i], counts[c], step);
                assert_int_equal(fixture.ranks[i].down.switch_generation, 0);
            }
        }
        fixture_done(&fixture);
    }
}

static int refuse_first(void *context)
{
    unsigned *asked = context;
    return (*asked)++ == 0 ? -EPERM : 0;
}

/* Only the root is asked, after all ranks hold; without its permission no rank commits. */
static void test_leave_to_commit(void **state)
{
    unsigned asked[3] = {0};

    (void)state;
    for (unsigned try = 0; try < 2; try++) {
        struct fixture fixture;
        fixture_init(&fixture, 3);
        set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
        for (unsigned i = 0; i < 3; i++)
            fixture.ranks[i].root =
                (struct commit_root){.may_commit = refuse_first, .context = &asked[i]};
        run_all(fixture.ranks, 3);
        assert_int_equal(fixture.ranks[0].status, try == 0 ? -EPERM : 0);
        for (unsigned i = 1; i < 3; i++)
            assert_int_equal(fixture.ranks[i].status, try == 0 ? -ECONNRESET : 0);
        fixture_done(&fixture);
    }
    assert_int_equal(asked[0], 2);
    assert_int_equal(asked[1] + asked[2], 0);
}

/* No rank commits if a rank does not hold: the record would be incomplete. */
static void test_incomplete(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 3);
    set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
    for (unsigned i = 0; i < 3; i++)
        fixture.ranks[i].up.record.unit_squares[4] = step_record_unknown();
    run_all(fixture.ranks, 3);
    assert_int_equal(fixture.ranks[0].status, -EBADMSG);
    assert_non_null(strstr(fixture.ranks[0].error.text, "incomplete"));
    assert_int_equal(fixture.ranks[1].status, -ECONNRESET);
    assert_int_equal(fixture.ranks[2].status, -ECONNRESET);
    fixture_done(&fixture);
}

/* The round that ends a job carries no step. */
static void test_closing(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 3);
    set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
    for (unsigned i = 0; i < 3; i++) {
        fixture.ranks[i].closing = true;
        step_record_init(&fixture.ranks[i].up.record, 5, UNITS, LANES);
    }
    fixture.ranks[0].up.unable.count = 0;
    fixture.ranks[1].up.checkpoint_failed = 2;
    run_all(fixture.ranks, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fixture.ranks[i].status, 0);
        assert_int_equal(fixture.ranks[i].down.checkpoint_durable, 100);
        assert_int_equal(fixture.ranks[i].down.checkpoint_failed, 2);
        assert_int_equal(fixture.ranks[i].down.unable.count, 2);
        assert_int_equal(
            fixture.ranks[i].down.unable.ranks[0] + fixture.ranks[i].down.unable.ranks[1], 3);
    }
    fixture_done(&fixture);
}

static void test_other_data(void **state)
{
    static const char words[] = "node n2 reads other training data than node n0";
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 3);
    set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
    fixture.ranks[2].up.data_digest = 78;
    run_all(fixture.ranks, 3);
    assert_int_equal(fixture.ranks[0].status, -EILSEQ);
    if (!strstr(fixture.ranks[0].error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", fixture.ranks[0].error.text, words);
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(fixture.ranks[i].status, -ECONNRESET);
    fixture_done(&fixture);
}

static void flip(double *value)
{
    uint64_t bits;

    memcpy(&bits, value, sizeof(bits));
    bits ^= 1;
    memcpy(value, &bits, sizeof(bits));
}

/*
 * Two ranks have gradients of one unit, and differ in the last bit of its norm. Wherever in the
 * tree the difference shows, all ranks receive it, no rank commits, and the root does not ask for
 * permission.
 */
static void test_other_gradients(void **state)
{
    unsigned asked = 1; /* would be permitted */

    (void)state;
    for (unsigned odd = 0; odd < RANKS; odd++) {
        struct fixture fixture;
        fixture_init(&fixture, RANKS);
        set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
        for (unsigned i = 0; i < RANKS; i++) /* all ranks have that unit */
            fixture.ranks[i].up.record.unit_squares[2] = unit_square(2);
        flip(&fixture.ranks[odd].up.record.unit_squares[2]);
        fixture.ranks[0].root = (struct commit_root){.may_commit = refuse_first, .context = &asked};
        run_all(fixture.ranks, RANKS);
        for (unsigned i = 0; i < RANKS; i++) {
            assert_int_equal(fixture.ranks[i].status, COMMIT_ROUND_DISPUTED);
            assert_int_equal(fixture.ranks[i].down.dispute, DISPUTE_GRADIENTS);
        }
        fixture_done(&fixture);
    }
    assert_int_equal(asked, 1);
}

/* The same holds for differences in state, in a step and in the round that ends a job. */
static void test_other_state(void **state)
{
    (void)state;
    for (unsigned odd = 0; odd < RANKS; odd++) {
        struct fixture fixture;
        fixture_init(&fixture, RANKS);
        set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
        for (unsigned i = 0; i < RANKS; i++) { /* all ranks have one unit, one rank another */
            struct unit_digests *digests = &fixture.ranks[i].up.digests;
            fixture.ranks[i].closing = odd % 2;
            digests->known[2] = digests->known[3 + i] = true;
            digests->values[2] = 77 + (i == odd);
            digests->values[3 + i] = i;
        }
        run_all(fixture.ranks, RANKS);
        for (unsigned i = 0; i < RANKS; i++) {
            assert_int_equal(fixture.ranks[i].status, COMMIT_ROUND_DISPUTED);
            assert_int_equal(fixture.ranks[i].down.dispute, DISPUTE_STATE);
        }
        fixture_done(&fixture);
    }
}

/*
 * Two ranks differ in another value of a step, such as a loss: no rank is accused, because no claim
 * about it can be judged.
 */
static void test_other_losses(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, 2);
    set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
    for (unsigned i = 0; i < 2; i++)
        fixture.ranks[i].up.record.lane_losses[0] = 1 + i;
    run_all(fixture.ranks, 2);
    assert_int_equal(fixture.ranks[0].status, -EBADMSG);
    fixture_done(&fixture);
}

/* Whether the commit announces @next when ranks [0, announced) have received generation 9, the last
 * of them generation @last, and the other ranks none. */
static bool is_announced(struct fixture *fixture, unsigned announced, uint64_t last,
                         const struct plan *next)
{
    set_up(fixture->ranks, &fixture->world, fixture->plan, ++fixture->steps);
    for (unsigned i = 0; i < RANKS; i++)
        readiness_init(&fixture->ranks[i].up.readiness, i,
                       i + 1 == announced ? last
                       : i < announced    ? 9
                                          : 0);
    fixture->ranks[0].root.next = next;
    run_all(fixture->ranks, RANKS);
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(fixture->ranks[i].down.switch_generation,
                         fixture->ranks[0].down.switch_generation);
    return fixture->ranks[0].down.switch_generation == next->generation;
}

/* A switch waits for the ranks that the next plan needs, and for no other rank. */
static void test_who_has_the_next_plan(void **state)
{
    struct fixture fixture;
    struct plan *without_last = plan_of(RANKS - 1), *all = plan_of(RANKS), *empty = plan_of(1);

    (void)state;
    fixture_init(&fixture, RANKS);
    fixture.plan->generation = 8;
    without_last->generation = all->generation = empty->generation = 9;
    without_last->follows = all->follows = empty->follows = 8;
    without_last->change.planned = all->change.planned = empty->change.planned = true;
    empty->layout.worker_count = 0; /* the first worker of its list only leaves */
    empty->layout.donor_count = 1;
    for (unsigned announced = 0; announced <= RANKS; announced++) {
        assert_int_equal(is_announced(&fixture, announced, 9, all), announced == RANKS);
        assert_int_equal(is_announced(&fixture, announced, 9, without_last),
                         announced >= RANKS - 1);
        assert_int_equal(is_announced(&fixture, announced, 9, empty), announced == RANKS);
    }
    /* A rank knows a newer plan than the root. */
    assert_false(is_announced(&fixture, RANKS, 10, without_last));
    plan_free(all);
    plan_free(without_last);
    plan_free(empty);
    fixture_done(&fixture);
}

static void test_a_rank_that_dies(void **state)
{
    struct fixture fixture;

    (void)state;
    fixture_init(&fixture, RANKS);
    set_up(fixture.ranks, &fixture.world, fixture.plan, 5);
    for (unsigned i = 0; i < RANKS; i++)
        if (i != 9)
            assert_int_equal(
                pthread_create(&fixture.ranks[i].thread, NULL, run_rank, &fixture.ranks[i]), 0);
    mesh_abort(fixture.world.meshes[9], "dies");
    for (unsigned i = 0; i < RANKS; i++)
        if (i != 9) {
            assert_int_equal(pthread_join(fixture.ranks[i].thread, NULL), 0);
            assert_int_equal(fixture.ranks[i].status, -ECONNRESET);
        }
    fixture_done(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_leave_to_commit),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_other_data),
        cmocka_unit_test(test_other_gradients),
        cmocka_unit_test(test_other_losses),
        cmocka_unit_test(test_other_state),
        cmocka_unit_test(test_who_has_the_next_plan),
        cmocka_unit_test(test_a_rank_that_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
