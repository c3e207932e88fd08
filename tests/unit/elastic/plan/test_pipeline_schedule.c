#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/plan/pipeline_schedule.h"

#define COUNT_MAX  40
#define STAGES_MAX 8

/* The progress of the micro-batches. */
struct course {
    unsigned next[SCHEDULE_BACKWARD_WEIGHT + 1]; /* by kind */
    bool live[2 * STAGES_MAX];                   /* by slot */
    unsigned live_count, live_most;
};

/* The kind that ends a micro-batch's use of its slot. */
static enum schedule_kind last_kind(const struct schedule_position *position)
{
    return position->deferred ? SCHEDULE_BACKWARD_WEIGHT : SCHEDULE_BACKWARD;
}

static void follow(struct course *course, const struct schedule_position *position, unsigned index)
{
    struct schedule_operation operation = schedule_operation(position, index);

    assert_true(operation.slot < schedule_slots(position));
    assert_int_equal(operation.micro_batch, course->next[operation.kind]++);
    if (!position->backward)
        return;
    if (operation.kind == SCHEDULE_FORWARD) {
        assert_false(course->live[operation.slot]);
        course->live[operation.slot] = true;
        course->live_most = MAX(course->live_most, ++course->live_count);
        return;
    }
    assert_true(course->live[operation.slot]);
    if (operation.kind == last_kind(position)) {
        course->live[operation.slot] = false;
        course->live_count--;
    }
}

/*
 * Check that every micro-batch has each of its operations once, in order, and never shares a live
 * slot.
 */
static void check_order(struct schedule_position position)
{
    struct course course = {0};
    unsigned count = position.micro_batch_count, *next = course.next;

    for (unsigned i = 0; i < schedule_operation_count(&position); i++) {
        follow(&course, &position, i);
        assert_true(next[SCHEDULE_BACKWARD] <= next[SCHEDULE_FORWARD]);
        assert_true(next[SCHEDULE_BACKWARD_INPUT] <= next[SCHEDULE_FORWARD]);
        assert_true(next[SCHEDULE_BACKWARD_WEIGHT] <= next[SCHEDULE_BACKWARD_INPUT]);
    }
    bool whole = position.backward && !position.deferred, split = position.backward && !whole;
    assert_int_equal(next[SCHEDULE_FORWARD], count);
    assert_int_equal(next[SCHEDULE_BACKWARD], whole ? count : 0);
    assert_int_equal(next[SCHEDULE_BACKWARD_INPUT], split ? count : 0);
    assert_int_equal(next[SCHEDULE_BACKWARD_WEIGHT], split ? count : 0);
    assert_true(course.live_most <= schedule_slots(&position));
    if (position.backward && count >= schedule_slots(&position))
        assert_int_equal(course.live_most, schedule_slots(&position));
}

static void test_every_micro_batch_once(void **state)
{
    (void)state;
    for (unsigned stages = 1; stages <= STAGES_MAX; stages++)
        for (unsigned stage = 0; stage < stages; stage++)
            for (unsigned count = 1; count < COUNT_MAX; count++)
                for (unsigned deferred = 0; deferred <= stage; deferred++)
                    for (int backward = 0; backward < 2; backward++)
                        check_order((struct schedule_position){.stage = stage,
                                                               .stage_count = stages,
                                                               .micro_batch_count = count,
                                                               .deferred = deferred,
                                                               .backward = backward});
}

/* With any deferral, the order of messages is that of the other stages. */
static void test_deferring_leaves_messages_in_order(void **state)
{
    (void)state;
    for (unsigned deferred = 1; deferred <= 3; deferred++) {
        struct schedule_position plain = {
            .stage = 3, .stage_count = 5, .micro_batch_count = 11, .backward = true};
        struct schedule_position split = plain;
        unsigned at = 0;
        split.deferred = deferred;
        for (unsigned i = 0; i < schedule_operation_count(&split); i++) {
            struct schedule_operation operation = schedule_operation(&split, i);
            if (operation.kind == SCHEDULE_BACKWARD_WEIGHT)
                continue;
            struct schedule_operation same = schedule_operation(&plain, at++);
            assert_int_equal(operation.micro_batch, same.micro_batch);
            assert_int_equal(operation.kind == SCHEDULE_FORWARD, same.kind == SCHEDULE_FORWARD);
        }
        assert_int_equal(at, schedule_operation_count(&plain));
    }
}

static void test_last_stage_alternates(void **state)
{
    struct schedule_position position = {
        .stage = 2, .stage_count = 3, .micro_batch_count = 5, .backward = true};

    (void)state;
    assert_int_equal(schedule_slots(&position), 1);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(schedule_operation(&position, i).kind,
                         i % 2 == 1 ? SCHEDULE_BACKWARD : SCHEDULE_FORWARD);
}

/* The logits of the last stage are shared by its slots: backward follows forward at once. */
static void test_last_stage_keeps_one_micro_batch_from_its_backward(void **state)
{
    struct schedule_position position = {
        .stage = 3, .stage_count = 4, .micro_batch_count = 9, .deferred = 3, .backward = true};
    unsigned ahead = 0;

    (void)state;
    for (unsigned i = 0; i < schedule_operation_count(&position); i++) {
        enum schedule_kind kind = schedule_operation(&position, i).kind;
        ahead += kind == SCHEDULE_FORWARD;
        ahead -= kind == SCHEDULE_BACKWARD_INPUT;
        assert_true(ahead <= 1);
    }
}

static void test_stages_defer_from_the_first_trained_one_on(void **state)
{
    const unsigned first[] = {0, 3, 6, 9, 12};

    (void)state;
    for (unsigned stage = 0; stage < 4; stage++) {
        assert_int_equal(schedule_deferred(first, stage, 0, 3), stage);
        assert_int_equal(schedule_deferred(first, stage, 0, 1), MIN(stage, 1u));
        assert_int_equal(schedule_deferred(first, stage, 2, 3), stage);
        assert_int_equal(schedule_deferred(first, stage, 6, 3), stage < 2 ? 0 : stage - 2);
        assert_int_equal(schedule_deferred(first, stage, 0, 0), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_micro_batch_once),
        cmocka_unit_test(test_deferring_leaves_messages_in_order),
        cmocka_unit_test(test_last_stage_alternates),
        cmocka_unit_test(test_last_stage_keeps_one_micro_batch_from_its_backward),
        cmocka_unit_test(test_stages_defer_from_the_first_trained_one_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
