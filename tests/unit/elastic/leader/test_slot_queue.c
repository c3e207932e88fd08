/* Tests of the order in which jobs get free slots: tables of jobs, and the result for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "elastic/leader/slot_queue.h"

#define JOBS_MAX 4

static struct slot_queue_job jobs[JOBS_MAX];
static unsigned job_count, total, free_slots;

static void begin(unsigned all, unsigned unused)
{
    job_count = 0;
    total = all;
    free_slots = unused;
}

static struct slot_queue_job *add(const char *name, unsigned least, unsigned workers)
{
    struct slot_queue_job *job = &jobs[job_count++];
    *job = (struct slot_queue_job){
        .submitted = 10 * (int64_t)job_count, .least = least, .workers = workers};
    job->waits = workers == 0;
    snprintf(job->name, sizeof(job->name), "%s", name);
    return job;
}

static void expect(unsigned index, unsigned kept_before, unsigned kept, unsigned gives)
{
    struct slot_queue_place place = slot_queue_place(jobs, job_count, index, total, free_slots);
    assert_int_equal(place.kept_before, kept_before);
    assert_int_equal(place.kept, kept);
    assert_int_equal(place.gives, gives);
}

static void test_without_anybody_waiting_all_is_free(void **state)
{
    (void)state;
    begin(8, 4);
    add("a", 1, 4);
    expect(0, 0, 0, 0);
    assert_null(slot_queue_place(jobs, 1, 0, total, free_slots).first);
}

static void test_the_first_submitted_is_served_first(void **state)
{
    (void)state;
    begin(2, 1);
    add("z", 1, 0);
    add("a", 1, 0);
    expect(0, 0, 1, 0);
    expect(1, 1, 1, 0);
    assert_int_equal(slot_queue_place(jobs, 2, 0, total, free_slots).before, 0);
    assert_int_equal(slot_queue_place(jobs, 2, 1, total, free_slots).before, 1);
    assert_string_equal(slot_queue_place(jobs, 2, 1, total, free_slots).first, "z");
    jobs[1].submitted = 5; /* the order of submission counts, not the list's */
    expect(0, 1, 1, 0);
    expect(1, 0, 1, 0);
}

static void test_who_has_more_than_it_needs_gives_way(void **state)
{
    (void)state;
    begin(4, 0);
    add("greedy", 1, 4);
    add("late", 2, 0);
    expect(0, 0, 2, 2);
    assert_string_equal(slot_queue_place(jobs, 2, 0, total, free_slots).first, "late");
    free_slots = 1;
    jobs[0].workers = 3;
    expect(0, 0, 2, 1);
    jobs[0].fixed = true;
    expect(0, 0, 2, 0);
}

static void test_the_youngest_gives_first(void **state)
{
    (void)state;
    begin(8, 0);
    add("old", 1, 4);
    add("young", 2, 4);
    add("late", 3, 0);
    expect(0, 0, 3, 1);
    expect(1, 0, 3, 2);
    jobs[2].least = 1; /* only the youngest can spare it */
    expect(0, 0, 1, 0);
    expect(1, 0, 1, 1);
}

static void test_nobody_gives_what_would_not_be_enough(void **state)
{
    (void)state;
    begin(4, 0);
    add("old", 3, 4);
    add("late", 2, 0);
    add("later", 1, 0);
    expect(0, 0, 3, 0); /* one is too few for the first; the second is behind it */
    expect(2, 2, 2, 0);
}

static void test_who_can_never_begin_keeps_nobody_waiting(void **state)
{
    (void)state;
    begin(4, 1);
    add("huge", 5, 0);
    add("old", 3, 3);
    add("late", 1, 0);
    expect(1, 0, 1, 0);
    expect(2, 0, 0, 0);
}

static void test_all_in_line_are_served_while_others_can_spare_it(void **state)
{
    (void)state;
    begin(6, 1);
    add("old", 1, 5);
    add("first", 2, 0);
    add("second", 3, 0);
    expect(0, 0, 5, 4);
    expect(2, 2, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_anybody_waiting_all_is_free),
        cmocka_unit_test(test_the_first_submitted_is_served_first),
        cmocka_unit_test(test_who_has_more_than_it_needs_gives_way),
        cmocka_unit_test(test_the_youngest_gives_first),
        cmocka_unit_test(test_nobody_gives_what_would_not_be_enough),
        cmocka_unit_test(test_who_can_never_begin_keeps_nobody_waiting),
        cmocka_unit_test(test_all_in_line_are_served_while_others_can_spare_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
