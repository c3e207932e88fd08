/*
 * Reductions against the sequential tree over all lanes, to the bit, for every number of replicas.
 * One mesh of twelve ranks serves all cases; each rank is a thread.
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

#include "lib/comm/reduce_harness.h"

#define RANKS 12

static void *member_run(void *context)
{
    struct member *member = context;
    uint64_t number = 0;
    for (unsigned lanes = 1; lanes <= LANES_MAX; lanes++) {
        for (unsigned members = 1; members <= MIN(lanes, (unsigned)RANKS); members++) {
            struct job job;
            reduce_make_job(&job, ++number, lanes, members, RANKS);
            member->code = reduce_run_job(member, &job);
            if (member->code < 0)
                return NULL;
        }
    }
    return NULL;
}

static struct member *members_start(struct world *world, void *(*run)(void *))
{
    struct member *members = calloc(world->count, sizeof(*members));
    assert_non_null(members);
    for (unsigned i = 0; i < world->count; i++) {
        assert_int_equal(carrier_mesh_new(world->meshes[i], &members[i].carrier), 0);
        members[i].rank = i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, run, &members[i]), 0);
    }
    return members;
}

static void members_join(struct member *members, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pthread_join(members[i].thread, NULL);
        carrier_free(members[i].carrier);
    }
}

static void test_every_layout_gives_the_bits_of_the_sequential_tree(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct world world;
        world_init(&world, RANKS);
        world.unexpected_max_bytes = round == 0 ? 0 : 11 * 2000; /* then most sums are offered */
        world_open(&world);
        struct member *members = members_start(&world, member_run);
        members_join(members, RANKS);
        for (unsigned i = 0; i < RANKS; i++) {
            assert_int_equal(members[i].code, 0);
            assert_int_equal(members[i].wrong, 0);
        }
        free(members);
        world_close(&world);
        world_done(&world);
    }
}

/* The check above would be worth nothing if any order gave these bits. */
static void test_another_order_gives_other_bits(void **state)
{
    (void)state;
    float tree[COUNT_MAX], naive[COUNT_MAX] = {0}, lane_values[COUNT_MAX];
    for (unsigned lanes = 4; lanes <= LANES_MAX; lanes++) {
        struct lane_tree_span root = {.first = 0, .count = lanes};
        reduce_sum_subtree(tree, lanes, 0, root, COUNT_MAX);
        memset(naive, 0, sizeof(naive));
        for (unsigned lane = 0; lane < lanes; lane++) {
            reduce_make_lane(lane_values, lanes, 0, lane, COUNT_MAX);
            reduce_add(NULL, naive, naive, lane_values, COUNT_MAX);
        }
        assert_memory_not_equal(tree, naive, sizeof(tree));
        for (size_t i = 0; i < COUNT_MAX; i++) /* the sum is the same all the same */
            assert_true(tree[i] - naive[i] < 64.0f && naive[i] - tree[i] < 64.0f);
    }
}

static void test_groups_with_lanes_or_members_left_out_are_refused(void **state)
{
    (void)state;
    const unsigned ranks[] = {0, 1};
    static const struct {
        unsigned lanes, self;
        uint16_t owners[4];
    } cases[] = {
        {0, 0, {0}},
        {4, 0, {0, 0, 1, 2}},
        {4, 2, {0, 0, 1, 1}},
        {1, 0, {0}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct reduce_bucket *bucket;
        struct reduce_group group = {
            .lanes = cases[i].lanes,
            .member_count = 2,
            .self = cases[i].self,
            .ranks = ranks,
            .owners = cases[i].owners,
            .add = reduce_add,
        };
        assert_int_equal(reduce_bucket_new(&group, 100, &bucket), -EINVAL);
    }
}

/* Every second lane: no two of a member make a subtree. */
static void test_too_many_subtrees_of_one_member_are_refused(void **state)
{
    (void)state;
    const unsigned ranks[] = {0, 1};
    for (unsigned lanes = 2 * LANE_TREE_SUBTREES_MAX; lanes <= 2 * LANE_TREE_SUBTREES_MAX + 2;
         lanes += 2) {
        struct reduce_bucket *bucket;
        uint16_t owners[2 * LANE_TREE_SUBTREES_MAX + 2];
        for (unsigned lane = 0; lane < lanes; lane++)
            owners[lane] = lane % 2;
        struct reduce_group group = {
            .lanes = lanes, .member_count = 2, .ranks = ranks, .owners = owners, .add = reduce_add};
        bool fits = lanes == 2 * LANE_TREE_SUBTREES_MAX;
        assert_int_equal(reduce_bucket_new(&group, 100, &bucket), fits ? 0 : -EINVAL);
        if (fits)
            reduce_bucket_free(bucket);
    }
}

static void test_one_replica_needs_no_mesh(void **state)
{
    (void)state;
    const unsigned rank = 0;
    const uint16_t owners[5] = {0};
    struct reduce_group group = {
        .lanes = 5, .member_count = 1, .ranks = &rank, .owners = owners, .add = reduce_add};
    struct reduce_bucket *bucket;
    float values[3] = {1, 2, 3}, result[3];
    float *subtrees[] = {values};
    assert_int_equal(reduce_bucket_new(&group, 3, &bucket), 0);
    assert_int_equal(reduce_begin(bucket, 0x100, subtrees, 3), 0);
    assert_int_equal(reduce_combine(bucket), 0);
    assert_int_equal(reduce_finish(bucket, result), 0);
    assert_memory_equal(result, values, sizeof(values));
    assert_int_equal(reduce_begin(bucket, 0x101, subtrees, 3), -EINVAL);
    assert_int_equal(reduce_begin(bucket, 0x100, subtrees, 4), -EINVAL);
    reduce_bucket_free(bucket);
}

/* A carrier that moves nothing and counts the posts. */
struct counting {
    struct carrier carrier;
    unsigned received, sent;
};

static int count_post(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                      struct carrier_request **ret_requests)
{
    struct counting *counting = (struct counting *)carrier;
    for (size_t i = 0; i < move_count; i++) {
        *(moves[i].receive ? &counting->received : &counting->sent) += 1;
        ret_requests[i] = (struct carrier_request *)counting;
    }
    return 0;
}

static int count_wait(struct carrier *carrier, struct carrier_request *request)
{
    assert_ptr_equal(carrier, request);
    return 0;
}

static void assert_posted(struct counting *counting, unsigned received, unsigned sent)
{
    assert_int_equal(counting->received, received);
    assert_int_equal(counting->sent, sent);
    counting->received = counting->sent = 0;
}

/* Return the bucket of the second of three members; the other members bring one sum and two. */
static struct reduce_bucket *counted_bucket(struct counting *counting)
{
    static const unsigned ranks[] = {0, 1, 2};
    static const uint16_t owners[] = {0, 0, 1, 2, 2, 2};
    struct reduce_group group = {.carrier = &counting->carrier,
                                 .lanes = 6,
                                 .member_count = 3,
                                 .self = 1,
                                 .ranks = ranks,
                                 .owners = owners,
                                 .add = reduce_add};
    struct reduce_bucket *bucket;
    assert_int_equal(
        lane_tree_subtrees(6, owners, 0, NULL, 0) + lane_tree_subtrees(6, owners, 2, NULL, 0), 3);
    assert_int_equal(lane_tree_subtrees(6, owners, 1, NULL, 0), 1);
    assert_int_equal(reduce_bucket_new(&group, 100, &bucket), 0);
    return bucket;
}

static void test_receives_are_posted_before_what_they_receive_can_come(void **state)
{
    (void)state;
    const struct carrier_operations operations = {
        .name = "counting", .by_tag = true, .post = count_post, .wait = count_wait};
    struct counting counting = {.carrier = {&operations}};
    struct reduce_bucket *bucket = counted_bucket(&counting);
    float values[100] = {0};
    float *subtrees[] = {values};
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(reduce_expect(bucket, 0x100, 100), 0);
        assert_posted(&counting, 3, 0);
        assert_int_equal(reduce_begin(bucket, 0x200, subtrees, 100), -EINVAL); /* another one */
        assert_int_equal(reduce_begin(bucket, 0x100, subtrees, 99), -EINVAL);
        assert_int_equal(reduce_begin(bucket, 0x100, subtrees, 100), 0);
        assert_posted(&counting, 0, 2);
        assert_false(reduce_combined(bucket)); /* nothing is received where the sums are */
        assert_int_equal(reduce_combine(bucket), 0);
        assert_posted(&counting, 2, 2); /* the results of both other shards */
        assert_true(reduce_combined(bucket));
        assert_int_equal(reduce_finish(bucket, values), 0);
    }
    assert_int_equal(reduce_begin(bucket, 0x300, subtrees, 100), 0); /* no receives are needed */
    assert_posted(&counting, 3, 2);
    assert_int_equal(reduce_combine(bucket), 0);
    assert_int_equal(reduce_finish(bucket, values), 0);
    reduce_bucket_free(bucket);
}

/* Two ranks post their exchange in one order, sums with sums and results with results. */
static void test_a_carrier_without_tags_sees_the_order_of_always(void **state)
{
    (void)state;
    const struct carrier_operations operations = {
        .name = "ordered", .post = count_post, .wait = count_wait};
    struct counting counting = {.carrier = {&operations}};
    struct reduce_bucket *bucket = counted_bucket(&counting);
    float values[100] = {0};
    float *subtrees[] = {values};
    assert_int_equal(reduce_expect(bucket, 0x100, 100), 0);
    assert_posted(&counting, 0, 0);
    assert_int_equal(reduce_begin(bucket, 0x100, subtrees, 100), 0);
    assert_posted(&counting, 3, 2);
    assert_int_equal(reduce_combine(bucket), 0);
    assert_posted(&counting, 2, 2);
    assert_int_equal(reduce_finish(bucket, values), 0);
    reduce_bucket_free(bucket);
}

/* One member begins and then gives up: the others do not wait for it, and no buffer stays
 * borrowed. */
static void *member_give_up(void *context)
{
    struct member *member = context;
    static const unsigned ranks[] = {0, 1, 2};
    static const uint16_t owners[] = {0, 0, 1, 2};
    struct reduce_group group = {
        .carrier = member->carrier,
        .lanes = 4,
        .member_count = 3,
        .self = member->rank,
        .ranks = ranks,
        .owners = owners,
        .add = reduce_add,
    };
    struct reduce_bucket *bucket;
    float *values = calloc(COUNT_MAX, sizeof(float));
    float *subtrees[] = {values};
    member->code = reduce_bucket_new(&group, COUNT_MAX, &bucket);
    if (member->code < 0) {
        free(values);
        return NULL;
    }
    member->code = reduce_begin(bucket, 0x100, subtrees, COUNT_MAX);
    if (member->rank != 1) {
        if (member->code == 0)
            member->code = reduce_combine(bucket);
        if (member->code == 0)
            member->code = reduce_finish(bucket, values);
    }
    reduce_bucket_free(bucket);
    free(values);
    return NULL;
}

static void test_a_member_that_gives_up_fails_the_others(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 3);
    world_open(&world);
    struct member *members = members_start(&world, member_give_up);
    members_join(members, 3);
    assert_int_equal(members[0].code, -ECONNRESET);
    assert_int_equal(members[2].code, -ECONNRESET);
    struct mesh_fault fault;
    mesh_fault(world.meshes[0], &fault);
    assert_int_equal(fault.lost_count, 0); /* no rank was lost: the fault was received */
    assert_non_null(strstr(fault.text, "given up"));
    free(members);
    world_close(&world);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_order_gives_other_bits),
        cmocka_unit_test(test_every_layout_gives_the_bits_of_the_sequential_tree),
        cmocka_unit_test(test_groups_with_lanes_or_members_left_out_are_refused),
        cmocka_unit_test(test_too_many_subtrees_of_one_member_are_refused),
        cmocka_unit_test(test_one_replica_needs_no_mesh),
        cmocka_unit_test(test_receives_are_posted_before_what_they_receive_can_come),
        cmocka_unit_test(test_a_carrier_without_tags_sees_the_order_of_always),
        cmocka_unit_test(test_a_member_that_gives_up_fails_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
