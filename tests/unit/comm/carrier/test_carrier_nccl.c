/*
 * Tests of whole reductions over the fake NCCL (fake_nccl.c): the bits of the sequential tree,
 * which equal those of the mesh (test_reduce.c), and every way in which a member can fail the
 * others. Ranks are threads, each with its own mesh and clique.
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

#include "comm/carrier/carrier_nccl.h"
#include "lib/comm/fake_nccl_fixture.h"

#define RANKS        6
#define LONG_NS      (60 * NS_PER_SECOND) /* for expected events, on a busy machine, too */
#define SHORT_NS     (30 * NS_PER_MS)     /* for events that must not happen */
#define TAG_AGREE    1
#define TAG_IDENTITY 2

static struct nccl_library *library;
static atomic_int hopeless_count;

/* ---- a device whose memory is the host's ---- */

struct device {
    struct fake_stream stream;
    char scratch[CARRIER_SCRATCH_BYTES];
    unsigned followed;
    unsigned long preceding; /* computed data wait for so many groups of the stream */
};

static void device_follow(void *context, void *stream)
{
    struct device *device = context;
    assert_ptr_equal(stream, &device->stream);
    device->followed++;
}

static int device_mark_new(void *context, void **ret_mark)
{
    (void)context;
    *ret_mark = calloc(1, sizeof(unsigned long));
    return *ret_mark ? 0 : -ENOMEM;
}

static void device_mark_set(void *context, void *mark, void *stream)
{
    (void)context;
    *(unsigned long *)mark = ((struct fake_stream *)stream)->posted;
}

static bool device_mark_passed(void *context, void *mark)
{
    struct device *device = context;
    return device->stream.finished >= *(unsigned long *)mark;
}

static void device_mark_precede(void *context, void *mark)
{
    struct device *device = context;
    device->preceding = *(unsigned long *)mark;
}

static void device_mark_free(void *context, void *mark)
{
    (void)context;
    free(mark);
}

/* ---- members ---- */

static void on_hopeless(void *context, const char *reason)
{
    (void)context;
    hopeless_count += strlen(reason) > 0;
}

struct rank {
    struct member member; /* the reduction's view */
    struct mesh *mesh;
    pthread_barrier_t *barrier;
    struct device device;
    struct nccl_clique *clique;
    uint64_t join_ns, move_ns;
    int code;
    struct error error;
};

static int rank_open(struct rank *rank, const unsigned *ranks, unsigned count)
{
    const struct nccl_clique_options clique = {.close_timeout_ns = LONG_NS,
                                               .abort_timeout_ns = LONG_NS,
                                               .lost = carrier_nccl_lost,
                                               .hopeless = on_hopeless,
                                               .context = rank->mesh};
    unsigned self = 0;
    while (ranks[self] != rank->member.rank)
        self++;
    assert_int_equal(nccl_clique_new(library, &clique, &rank->clique), 0);
    const struct carrier_nccl_options options = {
        .group = {.mesh = rank->mesh,
                  .ranks = ranks,
                  .member_count = count,
                  .self = self,
                  .tag = TAG_IDENTITY},
        .library = library,
        .clique = rank->clique,
        .device = {.context = &rank->device,
                   .scratch = rank->device.scratch,
                   .stream = &rank->device.stream,
                   .follow = device_follow,
                   .mark_new = device_mark_new,
                   .mark_set = device_mark_set,
                   .mark_passed = device_mark_passed,
                   .mark_precede = device_mark_precede,
                   .mark_free = device_mark_free},
        .join_deadline_ns = clock_monotonic_ns() + rank->join_ns,
        .move_timeout_ns = rank->move_ns,
    };
    return carrier_nccl_open(&options, &rank->member.carrier, &rank->error);
}

static void rank_close(struct rank *rank)
{
    carrier_free(rank->member.carrier);
    nccl_clique_free(rank->clique);
    rank->member.carrier = NULL;
    rank->clique = NULL;
}

/* A world of @count ranks, each a thread that runs @run. */
struct play {
    struct world world;
    struct rank *ranks;
    pthread_barrier_t barrier;
};

static void play(struct play *play, unsigned count, void *(*run)(void *))
{
    world_init(&play->world, count);
    world_open(&play->world);
    pthread_barrier_init(&play->barrier, NULL, count);
    play->ranks = calloc(count, sizeof(*play->ranks));
    assert_non_null(play->ranks);
    for (unsigned i = 0; i < count; i++) {
        struct rank *rank = &play->ranks[i];
        *rank = (struct rank){.mesh = play->world.meshes[i],
                              .barrier = &play->barrier,
                              .join_ns = LONG_NS,
                              .move_ns = LONG_NS,
                              .member.rank = i};
        assert_int_equal(pthread_create(&rank->member.thread, NULL, run, rank), 0);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(play->ranks[i].member.thread, NULL);
}

static void play_end(struct play *play)
{
    free(play->ranks);
    world_close(&play->world);
    world_done(&play->world);
    pthread_barrier_destroy(&play->barrier);
    assert_int_equal(fake_nccl->alive, 0);
    assert_int_equal(fake_nccl->aborts_outside, 0);
    assert_int_equal(hopeless_count, 0);
}

/* All three members in the reduction of four lanes, the second member with two lanes. */
static int reduce_once(struct rank *rank, bool combine)
{
    static const unsigned ranks[] = {0, 1, 2};
    static const uint16_t owners[] = {0, 1, 1, 2};
    const struct reduce_group group = {
        .carrier = rank->member.carrier,
        .lanes = 4,
        .member_count = 3,
        .self = rank->member.rank,
        .ranks = ranks,
        .owners = owners,
        .add = reduce_add,
    };
    struct reduce_bucket *bucket;
    float *values[] = {calloc(COUNT_MAX, sizeof(float)), calloc(COUNT_MAX, sizeof(float))};
    int status = reduce_bucket_new(&group, COUNT_MAX, &bucket);
    assert_int_equal(status, 0);
    status = reduce_begin(bucket, 0x100, values, COUNT_MAX);
    if (status == 0 && combine)
        status = reduce_combine(bucket);
    if (status == 0 && combine)
        status = reduce_finish(bucket, values[0]);
    reduce_bucket_free(bucket);
    free(values[0]);
    free(values[1]);
    return status;
}

static const unsigned three[] = {0, 1, 2};

/* Wait for the mesh to get the fault, and return its text. */
static const char *fault_text(struct mesh *mesh)
{
    static struct mesh_fault fault;
    assert_true(mesh_await_fault(mesh, clock_monotonic_ns() + LONG_NS));
    mesh_fault(mesh, &fault);
    return fault.text;
}

/* ---- successful reductions ---- */

static void *run_layouts(void *context)
{
    static const unsigned member_counts[] = {2, 3, 4, 6};
    struct rank *rank = context;
    uint64_t number = 0;

    for (unsigned lanes = 6; lanes <= LANES_MAX; lanes++) {
        for (unsigned i = 0; i < ARRAY_COUNT(member_counts); i++) {
            struct job job;
            reduce_make_job(&job, ++number, lanes, member_counts[i], RANKS);
            bool mine = false;
            for (unsigned k = 0; k < job.members; k++)
                mine |= job.ranks[k] == rank->member.rank;
            if (!mine)
                continue;
            rank->code = rank_open(rank, job.ranks, job.members);
            if (rank->code == 0)
                rank->code = reduce_run_job(&rank->member, &job);
            rank_close(rank);
            if (rank->code < 0)
                return NULL;
        }
    }
    return NULL;
}

static void test_every_layout_gives_the_bits_of_the_sequential_tree(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, RANKS, run_layouts);
    for (unsigned i = 0; i < RANKS; i++) {
        if (ranks.ranks[i].code < 0)
            fail_msg("rank %u: %s", i, ranks.ranks[i].error.text);
        assert_int_equal(ranks.ranks[i].member.wrong, 0);
        assert_true(ranks.ranks[i].device.followed > 0);
    }
    assert_true(fake_nccl->moved > 0);
    assert_int_equal(fake_nccl->wrong, 0);
    play_end(&ranks);
}

/* ---- failures ---- */

/* Rank 1 posts its sums and gives up: the other ranks get the fault over the mesh. */
static void *run_give_up(void *context)
{
    struct rank *rank = context;
    rank->code = rank_open(rank, three, 3);
    if (rank->code == 0)
        rank->code = reduce_once(rank, rank->member.rank != 1);
    rank_close(rank);
    return NULL;
}

static void test_a_member_that_gives_up_fails_the_others(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, 3, run_give_up);
    assert_int_equal(ranks.ranks[0].code, -ECONNRESET);
    assert_int_equal(ranks.ranks[2].code, -ECONNRESET);
    assert_non_null(strstr(fault_text(ranks.ranks[0].mesh), "given up"));
    play_end(&ranks);
}

/* Rank 1 joins and then does nothing until the others have ended. */
static void *run_hang(void *context)
{
    struct rank *rank = context;
    rank->move_ns = SHORT_NS;
    rank->code = rank_open(rank, three, 3);
    if (rank->code == 0 && rank->member.rank != 1)
        rank->code = reduce_once(rank, true);
    pthread_barrier_wait(rank->barrier);
    rank_close(rank);
    return NULL;
}

static void test_a_member_that_hangs_is_named(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, 3, run_hang);
    bool late = false;
    for (unsigned i = 0; i < 3; i += 2) {
        assert_true(ranks.ranks[i].code == -ETIMEDOUT || ranks.ranks[i].code == -ECONNRESET);
        late |= ranks.ranks[i].code == -ETIMEDOUT;
    }
    assert_true(late); /* the other rank got the fault, or was late itself */
    assert_non_null(strstr(fault_text(ranks.ranks[1].mesh), "was not moved within 30 ms"));
    play_end(&ranks);
}

/* Rank 1 does not join. */
static void *run_absent(void *context)
{
    struct rank *rank = context;
    rank->join_ns = SHORT_NS;
    if (rank->member.rank != 1)
        rank->code = rank_open(rank, three, 3);
    pthread_barrier_wait(rank->barrier);
    rank_close(rank);
    return NULL;
}

static void test_a_join_that_never_completes_ends_in_time(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, 3, run_absent);
    bool blamed = false;
    for (unsigned i = 0; i < 3; i += 2) {
        assert_true(ranks.ranks[i].code == -EIO || ranks.ranks[i].code == -ECONNRESET);
        blamed |= ranks.ranks[i].code == -EIO;
    }
    assert_true(blamed); /* the other rank may have got the fault over the mesh */
    assert_non_null(strstr(ranks.ranks[0].error.text, "joining the 3 members from rank 0 on"));
    play_end(&ranks);
}

/* NCCL reports an error while rank 0 and 2 wait for rank 1. */
static void *run_fault(void *context)
{
    struct rank *rank = context;
    rank->code = rank_open(rank, three, 3);
    pthread_barrier_wait(rank->barrier);
    if (rank->member.rank == 1)
        fake_nccl->fault = 6;
    else if (rank->code == 0)
        rank->code = reduce_once(rank, true);
    rank_close(rank);
    return NULL;
}

static void test_an_error_of_nccl_fails_the_mesh_too(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, 3, run_fault);
    assert_int_equal(ranks.ranks[0].code, -ECONNRESET);
    assert_int_equal(ranks.ranks[2].code, -ECONNRESET);
    assert_non_null(strstr(fault_text(ranks.ranks[1].mesh), "NCCL: remote process exited"));
    play_end(&ranks);
}

static void *run_without_identity(void *context)
{
    struct rank *rank = context;
    rank->code = rank_open(rank, three, 3);
    rank_close(rank);
    return NULL;
}

static void test_without_an_identity_nothing_has_failed(void **state)
{
    (void)state;
    struct play ranks;
    struct mesh_fault fault;
    fake_nccl->no_id = true;
    play(&ranks, 3, run_without_identity);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ranks.ranks[i].code, -ENOTSUP);
        mesh_fault(ranks.ranks[i].mesh, &fault);
        assert_false(fault.failed);
    }
    play_end(&ranks);
}

/* ---- choice of the carrier ---- */

static void test_what_offers_make(void **state)
{
    (void)state;
    const struct carrier_offer a = {22809, {1}, false}, b = {22809, {2}, false};
    const struct carrier_offer old = {21403, {3}, false}, none = {0};
    const struct {
        struct carrier_offer offers[3];
        const char *why; /* "": NCCL */
    } cases[] = {
        {{a, b, {22809, {3}, true}}, ""},
        {{a, b, a}, "members 0 and 2 share a GPU"},
        {{a, none, b}, "member 1 does not use NCCL"},
        {{none, none, none}, "member 0 does not use NCCL"},
        {{a, b, old}, "member 0 has NCCL 22809, member 2 has 21403"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char why[CARRIER_WHY_SIZE];
        assert_int_equal(carrier_choose(cases[i].offers, 3, why), cases[i].why[0] == '\0');
        assert_string_equal(why, cases[i].why);
    }
}

/* Agree twice: first each rank has its own GPU, then two ranks share one. */
static void *run_agree(void *context)
{
    struct rank *rank = context;
    /* the last one alone wants digests */
    struct carrier_offer mine = {22809, {(uint8_t)(rank->member.rank + 1)}, rank->member.rank == 2};
    bool digests = false;
    const struct carrier_group group = {.mesh = rank->mesh,
                                        .ranks = three,
                                        .member_count = 3,
                                        .self = rank->member.rank,
                                        .tag = TAG_AGREE};
    char why[CARRIER_WHY_SIZE];
    rank->code = carrier_agree(&group, &mine, &digests, why);
    if (!digests)
        rank->code = -ENODATA;
    if (rank->member.rank == 2)
        mine.gpu[0] = 1;
    if (rank->code == 1 && carrier_agree(&group, &mine, &digests, why) == 0 && !digests)
        error_set(&rank->error, -ENOTSUP, "%s", why);
    return NULL;
}

static void test_members_agree(void **state)
{
    (void)state;
    struct play ranks;
    play(&ranks, 3, run_agree);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ranks.ranks[i].code, 1);
        assert_string_equal(ranks.ranks[i].error.text, "members 0 and 2 share a GPU");
    }
    play_end(&ranks);
}

/* ---- the library ---- */

static int setup(void **state)
{
    struct error error = {0};
    (void)state;
    memset(fake_nccl, 0, sizeof(*fake_nccl));
    fake_nccl->version = 22809;
    fake_nccl->together = true;
    fake_nccl->polls_to_join = 2;
    fake_nccl->polls_to_post = 1;
    hopeless_count = 0;
    return nccl_library_open(FAKE_NCCL, &library, &error);
}

static int teardown(void **state)
{
    (void)state;
    nccl_library_close(library);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_layout_gives_the_bits_of_the_sequential_tree),
        TEST(test_a_member_that_gives_up_fails_the_others),
        TEST(test_a_member_that_hangs_is_named),
        TEST(test_a_join_that_never_completes_ends_in_time),
        TEST(test_an_error_of_nccl_fails_the_mesh_too),
        TEST(test_without_an_identity_nothing_has_failed),
        TEST(test_what_offers_make),
        TEST(test_members_agree),
    };
    return cmocka_run_group_tests(tests, fake_nccl_load, fake_nccl_unload);
}
