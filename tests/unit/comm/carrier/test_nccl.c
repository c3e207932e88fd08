/* Tests of cliques on the fake NCCL (fake_nccl.c): ranks are cliques of one process. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "comm/carrier/nccl.h"
#include "lib/comm/fake_nccl_fixture.h"

#define SHORT_NS (20 * NS_PER_MS)     /* for events that must not happen, and for a hanging abort */
#define LONG_NS  (60 * NS_PER_SECOND) /* for expected events, on a busy machine, too */

static struct nccl_library *library;
static uint8_t id[NCCL_ID_SIZE];
static atomic_int hopeless_count;
static atomic_bool peer_lost;

static int setup(void **state)
{
    struct error error = {0};
    (void)state;
    memset(fake_nccl, 0, sizeof(*fake_nccl));
    fake_nccl->version = 22809;
    fake_nccl->connected = true;
    fake_nccl->polls_to_join = 3;
    fake_nccl->polls_to_post = 2;
    hopeless_count = 0;
    peer_lost = false;
    if (nccl_library_open(FAKE_NCCL, &library, &error))
        return -1;
    return nccl_unique_id(library, id, &error);
}

static int teardown(void **state)
{
    (void)state;
    nccl_library_close(library);
    return 0;
}

static bool is_lost(void *context, char ret_reason[NCCL_REASON_SIZE])
{
    (void)context;
    snprintf(ret_reason, NCCL_REASON_SIZE, "worker c/0 closed its link");
    return peer_lost;
}

static void on_hopeless(void *context, const char *reason)
{
    (void)context;
    hopeless_count += strlen(reason) > 0;
}

static struct nccl_clique *new_clique_for(uint64_t close_ns, uint64_t abort_ns)
{
    const struct nccl_clique_options options = {.close_timeout_ns = close_ns,
                                                .abort_timeout_ns = abort_ns,
                                                .lost = is_lost,
                                                .hopeless = on_hopeless};
    struct nccl_clique *clique;
    assert_int_equal(nccl_clique_new(library, &options, &clique), 0);
    return clique;
}

static struct nccl_clique *new_clique(void)
{
    return new_clique_for(LONG_NS, LONG_NS);
}

static unsigned join(struct nccl_clique *clique, unsigned rank, unsigned count)
{
    struct error error = {0};
    unsigned number;
    if (nccl_join(clique, id, rank, count, clock_monotonic_ns() + LONG_NS, &number, &error))
        fail_msg("%s", error.text);
    return number;
}

static void exchange(struct nccl_clique *clique, unsigned communicator,
                     const struct nccl_move *moves, size_t count, struct fake_stream *stream)
{
    struct error error = {0};
    if (nccl_exchange(clique, communicator, moves, count, stream, clock_monotonic_ns() + LONG_NS,
                      &error))
        fail_msg("%s", error.text);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool at_once(void *context)
{
    (void)context;
    return true;
}

static void test_libraries_that_will_not_do(void **state)
{
    struct nccl_library *other;
    struct error error = {0};
    (void)state;
    assert_int_equal(nccl_library_open("libno-such-library.so", &other, &error), -ENOENT);
    fake_nccl->version = 21000;
    assert_int_equal(nccl_library_open(FAKE_NCCL, &other, &error), -EIO);
    assert_non_null(strstr(error.text, "2.14"));
}

/* Two ranks swap buffers, both ways in one group. */
static void test_exchange(void **state)
{
    struct nccl_clique *a = new_clique(), *b = new_clique();
    struct fake_stream stream_a = {0}, stream_b = {0};
    char from_a[8] = "from a", from_b[8] = "from b", at_a[8] = "", at_b[8] = "";
    struct error error = {0};
    (void)state;
    unsigned number = join(a, 0, 2);
    assert_int_equal(join(b, 1, 2), number);
    const struct nccl_move of_a[] = {{1, false, from_a, 8}, {1, true, at_a, 8}};
    const struct nccl_move of_b[] = {{0, true, at_b, 8}, {0, false, from_b, 8}};
    exchange(a, number, of_a, 2, &stream_a);
    exchange(b, number, of_b, 2, &stream_b);
    assert_int_equal(nccl_wait(a, at_once, NULL, clock_monotonic_ns() + LONG_NS, &error), 0);
    assert_string_equal(at_a, "from b");
    assert_string_equal(at_b, "from a");
    nccl_clique_free(a);
    nccl_clique_free(b);
    assert_int_equal(fake_nccl->alive, 0);
}

static void test_a_peer_that_never_joins(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct error error = {0};
    unsigned number;
    (void)state;
    fake_nccl->polls_to_join = -1;
    assert_int_equal(nccl_join(clique, id, 0, 2, clock_monotonic_ns() + SHORT_NS, &number, &error),
                     -ECONNRESET);
    assert_non_null(strstr(error.text, "no answer in time while joining"));
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->alive, 0);
}

/* An error of one communicator aborts all communicators in one group, and every waiter gets it. */
static void test_all_are_aborted_as_a_group(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct error error = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(join(clique, 0, 2), i);
    fake_nccl->fault = 6;
    assert_int_equal(nccl_wait(clique, never, NULL, clock_monotonic_ns() + LONG_NS, &error),
                     -ECONNRESET);
    assert_string_equal(error.text, "NCCL: remote process exited");
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->alive, 0);
    assert_int_equal(fake_nccl->aborts_outside, 0);
    assert_int_equal(fake_nccl->largest_abort, 3);
}

static void test_told_from_outside(void **state)
{
    struct nccl_clique *clique = new_clique();
    const struct nccl_move move = {1, true, id, 1};
    struct error error = {0};
    (void)state;
    join(clique, 0, 2);
    nccl_abort(clique, "worker b/1 is lost");
    assert_int_equal(
        nccl_exchange(clique, 0, &move, 1, NULL, clock_monotonic_ns() + LONG_NS, &error),
        -ECONNRESET);
    assert_string_equal(error.text, "worker b/1 is lost");
    assert_int_equal(nccl_wait(clique, at_once, NULL, UINT64_MAX, &error), -ECONNRESET);
    nccl_clique_free(clique);
}

static void test_a_peer_that_is_known_to_be_lost(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct error error = {0};
    (void)state;
    join(clique, 0, 2);
    peer_lost = true;
    assert_int_equal(nccl_wait(clique, never, NULL, UINT64_MAX, &error), -ECONNRESET);
    assert_string_equal(error.text, "worker c/0 closed its link");
    assert_int_equal(fake_nccl->alive, 0); /* waiters return only after the abort */
    nccl_clique_free(clique);
}

static void test_data_that_is_late(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct error error = {0};
    (void)state;
    join(clique, 0, 2);
    assert_int_equal(nccl_wait(clique, never, NULL, clock_monotonic_ns() + SHORT_NS, &error),
                     -ETIMEDOUT);
    assert_int_equal(nccl_wait(clique, never, NULL, UINT64_MAX, &error), -ECONNRESET);
    nccl_clique_free(clique);
}

/* Wait for the device as a host does: return only when the device has done all work. */
static void wait_for_device(const struct fake_stream *stream)
{
    while (stream->finished < stream->posted)
        sched_yield();
}

static void test_a_device_that_waits_for_a_peer(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct fake_stream stream = {0};
    char buffer[8];
    const struct nccl_move move = {1, true, buffer, sizeof(buffer)};
    struct error error = {0};
    (void)state;
    exchange(clique, join(clique, 0, 2), &move, 1, &stream);
    nccl_guard(clique, clock_monotonic_ns() + SHORT_NS);
    wait_for_device(&stream);
    assert_int_equal(nccl_unguard(clique, &error), -ECONNRESET);
    assert_string_equal(error.text, "NCCL: no answer in time while the device waits for a peer");
    assert_int_equal(fake_nccl->alive, 0);
    nccl_clique_free(clique);
}

/* Nothing is late that happens between two guards. */
static void test_a_guard_that_was_not_needed(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct error error = {0};
    (void)state;
    join(clique, 0, 2);
    nccl_guard(clique, clock_monotonic_ns() + LONG_NS);
    assert_int_equal(nccl_unguard(clique, &error), 0);
    nccl_guard(clique, 0);
    assert_int_equal(nccl_unguard(clique, &error), 0);
    assert_false(nccl_ended(clique));
    nccl_clique_free(clique);
}

static void test_refused_calls(void **state)
{
    struct nccl_clique *clique = new_clique();
    const struct nccl_move move = {1, true, id, 1};
    struct error error = {0};
    unsigned number;
    (void)state;
    join(clique, 0, 2);
    fake_nccl->post_result = 2;
    assert_int_equal(nccl_exchange(clique, 0, &move, 1, NULL, UINT64_MAX, &error), -ECONNRESET);
    assert_string_equal(error.text, "NCCL: system error while sending and receiving");
    nccl_clique_free(clique);
    clique = new_clique();
    fake_nccl->init_result = 2;
    assert_int_equal(nccl_join(clique, id, 0, 2, UINT64_MAX, &number, &error), -ECONNRESET);
    assert_non_null(strstr(error.text, "system error"));
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->alive, 0);
}

static void test_an_abort_that_hangs_is_told(void **state)
{
    struct nccl_clique *clique = new_clique_for(LONG_NS, SHORT_NS);
    (void)state;
    join(clique, 0, 2);
    fake_nccl->abort_hangs = true;
    nccl_abort(clique, "worker b/1 is lost");
    nccl_clique_free(clique); /* leaves it to the hanging thread */
    assert_int_equal(hopeless_count, 1);
    fake_nccl->abort_hangs = false;
    while (fake_nccl->alive > 0)
        sched_yield();
}

/* Kernels that wait for a peer leave most of the device to products. */
static void test_communicators_are_small_where_nccl_can_be_told(void **state)
{
    static const struct {
        int version, ctas_max;
    } cases[] = {{21603, 0}, {21701, 8}, {22809, 8}};

    for (unsigned i = 0; i < 3; i++) {
        teardown(state);
        setup(state);
        nccl_library_close(library);
        fake_nccl->version = cases[i].version;
        assert_int_equal(nccl_library_open(FAKE_NCCL, &library, &(struct error){0}), 0);
        struct nccl_clique *clique = new_clique();
        join(clique, 0, 1);
        assert_int_equal(fake_nccl->ctas_max, cases[i].ctas_max);
        nccl_clique_free(clique);
    }
}

/* The first move of a pair holds up its host until the other side has posted one. */
static void test_a_first_move_waits_for_its_peer(void **state)
{
    struct nccl_clique *clique = new_clique();
    struct fake_stream stream = {0};
    const struct nccl_move move = {1, true, id, 8};
    struct error error = {0};

    (void)state;
    fake_nccl->connected = false;
    unsigned number = join(clique, 0, 2);
    assert_int_equal(
        nccl_exchange(clique, number, &move, 1, &stream, clock_monotonic_ns() + SHORT_NS, &error),
        -ECONNRESET);
    assert_string_equal(error.text, "NCCL: no answer in time while sending and receiving");
    assert_int_equal(stream.posted, 0);
    nccl_clique_free(clique);
}

/* A generation that ends without a fault aborts nothing. */
static void test_an_orderly_end(void **state)
{
    struct nccl_clique *clique = new_clique();

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(join(clique, 0, 2), i);
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->destroyed, 3);
    assert_int_equal(fake_nccl->wrong_ends, 0);
    assert_int_equal(fake_nccl->largest_abort, 0);
    assert_int_equal(fake_nccl->alive, 0);
}

static void test_an_end_that_is_late(void **state)
{
    struct nccl_clique *clique = new_clique_for(SHORT_NS, LONG_NS);

    (void)state;
    join(clique, 0, 2);
    fake_nccl->finalize_hangs = true;
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->destroyed, 0);
    assert_int_equal(fake_nccl->largest_abort, 1);
    assert_int_equal(fake_nccl->alive, 0);
    assert_int_equal(hopeless_count, 0);
}

static void test_an_end_after_a_peer_is_lost(void **state)
{
    struct nccl_clique *clique = new_clique();

    (void)state;
    join(clique, 0, 2);
    peer_lost = true;
    fake_nccl->finalize_hangs = true;
    nccl_clique_free(clique);
    assert_int_equal(fake_nccl->destroyed, 0);
    assert_int_equal(fake_nccl->alive, 0);
}

static void test_destroying_that_hangs_is_told(void **state)
{
    struct nccl_clique *clique = new_clique_for(LONG_NS, SHORT_NS);

    (void)state;
    join(clique, 0, 2);
    fake_nccl->destroy_hangs = true;
    nccl_clique_free(clique);
    assert_int_equal(hopeless_count, 1);
    fake_nccl->destroy_hangs = false;
    while (fake_nccl->alive > 0)
        sched_yield();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_libraries_that_will_not_do),
        TEST(test_exchange),
        TEST(test_a_peer_that_never_joins),
        TEST(test_all_are_aborted_as_a_group),
        TEST(test_told_from_outside),
        TEST(test_a_peer_that_is_known_to_be_lost),
        TEST(test_data_that_is_late),
        TEST(test_a_device_that_waits_for_a_peer),
        TEST(test_a_guard_that_was_not_needed),
        TEST(test_refused_calls),
        TEST(test_communicators_are_small_where_nccl_can_be_told),
        TEST(test_a_first_move_waits_for_its_peer),
        TEST(test_an_abort_that_hangs_is_told),
        TEST(test_an_orderly_end),
        TEST(test_an_end_that_is_late),
        TEST(test_an_end_after_a_peer_is_lost),
        TEST(test_destroying_that_hangs_is_told),
    };
    return cmocka_run_group_tests(tests, fake_nccl_load, fake_nccl_unload);
}
