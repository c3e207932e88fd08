/*
 * Tests of the jobs that leave the list when they are over, and when: no job that a user may still
 * wait for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/leader/retiring_choice.h"
#include "lib/daemon/keys.h"

#define ENDED_NS (1000 * NS_PER_SECOND)
#define HOUR_NS  (3600 * NS_PER_SECOND)
#define DAY_NS   (24 * HOUR_NS)
#define KEEP_NS  (7 * DAY_NS)

static struct mirror mirror;
static struct retiring_job chosen;

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    memset(&chosen, 0, sizeof(chosen));
    return 0;
}

static void put_job(const char *job, const char *word, uint64_t unix_ns, uint64_t kept_until_ns)
{
    struct state_record state = {.unix_ns = unix_ns, .kept_until_unix_ns = kept_until_ns};
    char key[KV_KEY_MAX];

    snprintf(state.state, sizeof(state.state), "%s", word);
    keys_put_leaf(&mirror, job, "spec", "{}");
    keys_put_tree(&mirror, keys_said(key, CLUSTER, job, "state"), state_record_encode(&state));
}

static bool choose(uint64_t unix_ns)
{
    return retiring_choose(&mirror, CLUSTER, KEEP_NS, unix_ns, &chosen);
}

static void test_jobs_go_when_their_time_is_over(void **state)
{
    (void)state;
    put_job("a", "completed", ENDED_NS, ENDED_NS + 3 * DAY_NS);
    put_job("b", "failed", ENDED_NS, ENDED_NS + 2 * DAY_NS);
    put_job("c", "completed", ENDED_NS, 0); /* an older firnd did not write a deadline */
    put_job("d", "running", ENDED_NS, 0);
    put_job("e", "paused", ENDED_NS, 0);
    keys_put_leaf(&mirror, "f", "spec", "{}"); /* no leader has seen it yet */
    assert_false(choose(ENDED_NS + 2 * DAY_NS - 1));
    assert_true(choose(ENDED_NS + 2 * DAY_NS));
    assert_string_equal(chosen.name, "b");
    assert_true(choose(ENDED_NS + 3 * DAY_NS)); /* b first, as long as it exists */
    assert_string_equal(chosen.name, "b");
    keys_remove(&mirror, "/firn/v1/c/jobs/b/spec");
    assert_true(choose(ENDED_NS + 3 * DAY_NS));
    assert_string_equal(chosen.name, "a");
    keys_remove(&mirror, "/firn/v1/c/jobs/a/spec");
    assert_false(choose(ENDED_NS + KEEP_NS - 1));
    assert_true(choose(ENDED_NS + KEEP_NS));
    assert_string_equal(chosen.name, "c");
    keys_remove(&mirror, "/firn/v1/c/jobs/c/spec");
    assert_false(choose(UINT64_MAX / 2));
}

static void test_it_is_removed_as_it_was_chosen(void **state)
{
    char key[KV_KEY_MAX];
    (void)state;
    put_job("a", "completed", ENDED_NS, ENDED_NS + DAY_NS);
    assert_true(choose(ENDED_NS + DAY_NS));
    assert_int_equal(chosen.spec_revision,
                     mirror_find(&mirror, keys_job(key, CLUSTER, "a", "spec"))->mod_revision);
    assert_int_equal(chosen.state_revision,
                     mirror_find(&mirror, keys_said(key, CLUSTER, "a", "state"))->mod_revision);
    assert_true(chosen.spec_revision != chosen.state_revision);
}

static void test_where_all_stay_none_goes(void **state)
{
    (void)state;
    put_job("a", "completed", ENDED_NS, ENDED_NS + DAY_NS);
    assert_false(retiring_choose(&mirror, CLUSTER, 0, ENDED_NS + 9 * DAY_NS, &chosen));
}

static void test_of_too_many_the_oldest_go_but_none_in_its_first_hour(void **state)
{
    char name[NAME_SIZE];
    (void)state;
    for (unsigned i = 0; i <= RETIRING_JOBS_MAX; i++) {
        snprintf(name, sizeof(name), "job%u", i);
        uint64_t ended_ns = ENDED_NS + (i == 77 ? 0 : 1 + i);
        put_job(name, "completed", ended_ns, ended_ns + KEEP_NS);
    }
    assert_false(choose(ENDED_NS + HOUR_NS)); /* the others are not counted yet */
    assert_true(choose(ENDED_NS + HOUR_NS + 1000));
    assert_string_equal(chosen.name, "job77");
    keys_remove(&mirror, "/firn/v1/c/jobs/job77/spec");
    assert_false(choose(ENDED_NS + HOUR_NS + 1000));
}

/* No node would upload a checkpoint that the object store still lacks. */
static void test_the_last_checkpoint_is_sent_first(void **state)
{
    (void)state;
    put_job("a", "completed", ENDED_NS, ENDED_NS + DAY_NS);
    keys_put_checkpoint(&mirror, "a", 40, "n", "");
    keys_put_object(&mirror, "a", 40, RECORD_COMPLETE, "n", 40);
    assert_true(choose(ENDED_NS + DAY_NS));
    keys_put_checkpoint(&mirror, "a", 80, "n", "");
    assert_false(choose(ENDED_NS + DAY_NS));
    keys_put_object(&mirror, "a", 80, RECORD_UPLOADING, "n", 80);
    assert_false(choose(ENDED_NS + DAY_NS));
    keys_put_object(&mirror, "a", 80, RECORD_COMPLETE, "n", 80);
    assert_true(choose(ENDED_NS + DAY_NS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_jobs_go_when_their_time_is_over, tear_down),
        cmocka_unit_test_teardown(test_it_is_removed_as_it_was_chosen, tear_down),
        cmocka_unit_test_teardown(test_where_all_stay_none_goes, tear_down),
        cmocka_unit_test_teardown(test_of_too_many_the_oldest_go_but_none_in_its_first_hour,
                                  tear_down),
        cmocka_unit_test_teardown(test_the_last_checkpoint_is_sent_first, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
