#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/plan/one_f_one_b.h"

#define COUNT_MAX 40

/*
 * Check that every micro-batch goes forward once and backward once, in order, and never shares a
 * live slot.
 */
static void check_order(struct one_f_one_b_position position)
{
    unsigned next_forward = 0, next_backward = 0;
    bool live[COUNT_MAX] = {false};

    for (unsigned i = 0; i < one_f_one_b_operation_count(&position); i++) {
        struct one_f_one_b_operation operation = one_f_one_b_operation(&position, i);
        assert_true(operation.slot < one_f_one_b_slots(&position));
        if (operation.backward) {
            assert_int_equal(operation.micro_batch, next_backward++);
            assert_true(live[operation.slot]);
            live[operation.slot] = false;
        } else {
            assert_int_equal(operation.micro_batch, next_forward++);
            assert_true(!position.backward || !live[operation.slot]);
            live[operation.slot] = true;
        }
        assert_true(next_backward <= next_forward);
    }
    assert_int_equal(next_forward, position.micro_batch_count);
    assert_int_equal(next_backward, position.backward ? position.micro_batch_count : 0);
}

static void test_every_micro_batch_once(void **state)
{
    (void)state;
    for (unsigned stages = 1; stages <= 8; stages++)
        for (unsigned stage = 0; stage < stages; stage++)
            for (unsigned count = 1; count < COUNT_MAX; count++)
                for (int backward = 0; backward < 2; backward++)
                    check_order((struct one_f_one_b_position){.stage = stage,
                                                              .stage_count = stages,
                                                              .micro_batch_count = count,
                                                              .backward = backward});
}

static void test_last_stage_alternates(void **state)
{
    struct one_f_one_b_position position = {
        .stage = 2, .stage_count = 3, .micro_batch_count = 5, .backward = true};

    (void)state;
    assert_int_equal(one_f_one_b_slots(&position), 1);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(one_f_one_b_operation(&position, i).backward, i % 2 == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_micro_batch_once),
        cmocka_unit_test(test_last_stage_alternates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
