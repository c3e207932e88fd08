/*
 * The messages of the commit tree: every field comes back, and a message that is cut off, or names
 * a rank or unit that does not exist, is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/step_commit_message.h"

#define RANKS 6
#define UNITS 4

static const struct plan_layout layout = {
    .stage_count = 2, .replica_count = 3, .worker_count = RANKS};

static struct step_commit_part *part, *unpacked;
static struct step_commit_down *down, *unpacked_down;
static struct bytes message;

static void fill_record(struct step_record *record)
{
    step_record_init(record, 41, UNITS, 2);
    for (unsigned unit = 0; unit < UNITS; unit++)
        record->unit_squares[unit] = 1.5 * unit;
    record->lane_losses[1] = 3.25;
}

static int set_up(void **state)
{
    (void)state;
    part = calloc(1, sizeof(*part));
    unpacked = malloc(sizeof(*unpacked));
    down = calloc(1, sizeof(*down));
    unpacked_down = malloc(sizeof(*unpacked_down));
    if (!part || !unpacked || !down || !unpacked_down)
        return -1;
    memset(unpacked, 0xaa, sizeof(*unpacked)); /* unwritten bytes show */
    memset(unpacked_down, 0xaa, sizeof(*unpacked_down));
    struct step_commit_up *up = &part->up;
    up->data_digest = 0x1122334455667788;
    up->checkpoint_durable = 30;
    up->checkpoint_failed = 40;
    up->checkpoint_busy = true;
    up->unable = (struct checkpoint_writers_unable){.count = 2, .ranks = {1, 5}};
    up->readiness = (struct readiness){
        .announced_min = 8, .announced_max = 9, .lacking_count = 1, .lacking = {3}};
    up->digests.known[2] = true;
    up->digests.values[2] = 77;
    part->dispute = DISPUTE_GRADIENTS;
    part->busy_ns[4] = 123456789;
    fill_record(&up->record);
    down->switch_generation = 9;
    down->checkpoint_durable = 31;
    down->checkpoint_failed = 41;
    down->dispute = DISPUTE_STATE;
    down->unable = up->unable;
    down->slowest[1] = (struct straggler_stage){.rank = 3, .lane_ns = 20, .fastest_ns = 10};
    fill_record(&down->record);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bytes_done(&message);
    message = (struct bytes){0};
    free(part);
    free(unpacked);
    free(down);
    free(unpacked_down);
    return 0;
}

static void expect_record(const struct step_record *record)
{
    assert_int_equal(record->step, 41);
    assert_int_equal(record->unit_count, UNITS);
    assert_true(record->unit_squares[3] == 4.5);
    assert_true(record->lane_losses[1] == 3.25);
    assert_false(step_record_is_known(record->lane_losses[0]));
}

static void test_a_part_comes_back(void **state)
{
    (void)state;
    assert_int_equal(step_commit_pack_part(part, &layout, &message), 0);
    assert_int_equal(step_commit_unpack_part(message.data, message.size_bytes, &layout, unpacked),
                     0);
    const struct step_commit_up *up = &unpacked->up;
    assert_true(up->data_digest == 0x1122334455667788);
    assert_int_equal(up->checkpoint_durable, 30);
    assert_int_equal(up->checkpoint_failed, 40);
    assert_true(up->checkpoint_busy);
    assert_int_equal(up->unable.count, 2);
    assert_int_equal(up->unable.ranks[1], 5);
    assert_memory_equal(&up->readiness, &part->up.readiness, sizeof(up->readiness));
    assert_memory_equal(&up->digests, &part->up.digests, sizeof(up->digests));
    assert_int_equal(unpacked->dispute, DISPUTE_GRADIENTS);
    for (unsigned rank = 0; rank < RANKS; rank++)
        assert_int_equal(unpacked->busy_ns[rank], part->busy_ns[rank]);
    expect_record(&up->record);
}

static void test_what_comes_down_comes_back(void **state)
{
    (void)state;
    for (unsigned closing = 0; closing < 2; closing++) {
        message.size_bytes = 0;
        assert_int_equal(step_commit_pack_down(down, &layout, closing, &message), 0);
        assert_int_equal(step_commit_unpack_down(message.data, message.size_bytes, &layout, closing,
                                                 unpacked_down),
                         0);
        assert_int_equal(unpacked_down->switch_generation, 9);
        assert_int_equal(unpacked_down->checkpoint_durable, 31);
        assert_int_equal(unpacked_down->checkpoint_failed, 41);
        assert_int_equal(unpacked_down->dispute, DISPUTE_STATE);
        assert_false(unpacked_down->checkpoint_busy);
        assert_int_equal(unpacked_down->unable.ranks[0], 1);
        if (!closing)
            assert_int_equal(unpacked_down->slowest[1].rank, 3);
        expect_record(&unpacked_down->record);
        assert_int_equal(step_commit_unpack_down(message.data, message.size_bytes, &layout,
                                                 !closing, unpacked_down),
                         -EBADMSG); /* a round of the other kind */
    }
}

static void test_a_message_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    assert_int_equal(step_commit_pack_part(part, &layout, &message), 0);
    for (size_t size = 0; size < message.size_bytes; size++) {
        void *cut = malloc(size + 1); /* of its own, so that sanitizers see a byte too many */
        assert_non_null(cut);
        memcpy(cut, message.data, size);
        assert_true(step_commit_unpack_part(cut, size, &layout, unpacked) < 0);
        free(cut);
    }
}

static void test_ranks_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    const struct plan_layout smaller = {.stage_count = 1, .replica_count = 3, .worker_count = 3};
    assert_int_equal(step_commit_pack_part(part, &layout, &message), 0);
    assert_int_equal(step_commit_unpack_part(message.data, message.size_bytes, &smaller, unpacked),
                     -EBADMSG);
    message.size_bytes = 0;
    assert_int_equal(step_commit_pack_down(down, &layout, true, &message), 0);
    assert_int_equal(
        step_commit_unpack_down(message.data, message.size_bytes, &smaller, true, unpacked_down),
        -EBADMSG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_part_comes_back),
        TEST(test_what_comes_down_comes_back),
        TEST(test_a_message_that_is_cut_off_is_refused),
        TEST(test_ranks_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
