/*
 * Tests of the checkpoint that a node scrubs: chosen from the cluster's keys and from earlier
 * scrubs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/checkpoint/scrubbing_choice.h"
#include "lib/daemon/keys.h"

#define JOB  "demo"
#define NOW  (1000 * NS_PER_SECOND)
#define TERM (SCRUBBING_TERM_S * NS_PER_SECOND)

static struct mirror mirror;
static struct scrubbing_memory memory;
static struct scrubbing_task task;
static uint64_t now_ns;
static bool oldest_first;

static int set_up(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    now_ns = NOW;
    oldest_first = false;
    keys_put_registered(&mirror, "a");
    keys_put_registered(&mirror, "b");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    checkpoint_record_done(&task.record);
    task = (struct scrubbing_task){0};
    return 0;
}

static enum scrubbing_urgency choose(const char *node, bool leads)
{
    const struct scrubbing_view view = {.mirror = &mirror,
                                        .cluster = CLUSTER,
                                        .node = node,
                                        .leads = leads,
                                        .oldest_first = oldest_first,
                                        .unix_ns = now_ns,
                                        .memory = &memory};
    checkpoint_record_done(&task.record);
    task = (struct scrubbing_task){0};
    return scrubbing_choose(&view, JOB, &task);
}

static void expect(enum scrubbing_urgency urgency, uint64_t step)
{
    assert_int_equal(choose("a", false), urgency);
    assert_int_equal(task.record.step, step);
}

static void learn(uint64_t step, uint64_t verified_ns, uint64_t retry_at_ns)
{
    char digest[RECORD_DIGEST_SIZE];
    keys_digest(step, digest);
    scrubbing_learned(&memory, digest, verified_ns, retry_at_ns);
}

static void test_the_newest_comes_first(void **state)
{
    (void)state;
    expect(SCRUBBING_NOTHING, 0);
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    expect(SCRUBBING_NEW, 80);
    learn(80, now_ns, 0);
    expect(SCRUBBING_NEW, 40);
    learn(40, now_ns, 0);
    expect(SCRUBBING_NOTHING, 0);
}

/*
 * New checkpoints may arrive faster than they are scrubbed: the oldest and the newest take turns.
 */
static void test_in_turns_the_oldest(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    oldest_first = true;
    expect(SCRUBBING_NEW, 40);
    learn(40, now_ns, 0);
    expect(SCRUBBING_NEW, 80);
}

static void test_every_week_again_and_new_ones_before(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    learn(40, now_ns, 0);
    learn(80, now_ns + 1, 0);
    now_ns += TERM;
    expect(SCRUBBING_AGAIN, 40);
    keys_put_checkpoint(&mirror, JOB, 20, "a", ""); /* older, and never scrubbed */
    expect(SCRUBBING_NEW, 20);
}

static void test_one_that_could_not_be_read_rests(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    learn(80, 0, now_ns + 5);
    expect(SCRUBBING_NEW, 40);
    now_ns += 5;
    expect(SCRUBBING_NEW, 80);
}

static void test_each_node_reads_what_is_its_own(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "b", "");
    assert_int_equal(choose("a", true), SCRUBBING_NOTHING);
    assert_int_equal(choose("b", false), SCRUBBING_NEW);
    keys_put_checkpoint(&mirror, JOB, 80, "gone", "");
    assert_int_equal(choose("a", false), SCRUBBING_NOTHING);
    assert_int_equal(choose("a", true), SCRUBBING_NEW); /* the leader, if it reaches the folder */
    assert_int_equal(task.record.step, 80);
}

static void test_with_copies_every_node_reads_its_part(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "b", "a+b b+a");
    expect(SCRUBBING_NEW, 40);
    assert_string_equal(task.record.shares, "a+b b+a");
    assert_int_equal(choose("b", false), SCRUBBING_NEW);
    assert_int_equal(choose("c", true), SCRUBBING_NOTHING);
}

/* Other checkpoints may share the damaged file. */
static void test_damage_makes_the_others_doubtful(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    learn(40, now_ns, 0);
    learn(80, 0, now_ns + 5);
    scrubbing_doubt(&memory, &mirror, CLUSTER, JOB);
    expect(SCRUBBING_NEW, 40);
    assert_true(task.doubted); /* in spite of its mark */
    learn(40, now_ns, 0);
    expect(SCRUBBING_NOTHING, 0);
}

/* A leader or an operator has found the damage. */
static void test_damage_in_a_record_is_noticed_once(void **state)
{
    (void)state;
    struct checkpoint_record record = {.step = 80, .path = "/ck"};
    char key[KV_KEY_MAX];
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    learn(40, now_ns, 0);
    scrubbing_notice(&memory, &mirror, CLUSTER, JOB);
    expect(SCRUBBING_NOTHING, 0);
    snprintf(record.node, sizeof(record.node), "a");
    snprintf(record.damaged, sizeof(record.damaged), "chunk 3");
    keys_digest(80, record.manifest_sha256);
    keys_put_tree(&mirror, keys_checkpoint(key, CLUSTER, JOB, 80),
                  checkpoint_record_encode(&record));
    scrubbing_notice(&memory, &mirror, CLUSTER, JOB);
    expect(SCRUBBING_NEW, 40);
    learn(40, now_ns, 0);
    scrubbing_notice(&memory, &mirror, CLUSTER, JOB);
    expect(SCRUBBING_NOTHING, 0);
}

static void test_more_than_it_remembers_are_looked_at_again(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 1, "a", "");
    learn(1, now_ns, 0);
    expect(SCRUBBING_NOTHING, 0);
    for (uint64_t step = 2; step < 2 + SCRUBBING_KNOWN_MAX; step++)
        learn(step, now_ns, 0);
    expect(SCRUBBING_NEW, 1);
}

static void test_reading_takes_half_of_the_time_between_two(void **state)
{
    (void)state;
    struct checkpoint_record record = {
        .step = 40, .unix_ns = NOW, .path = "/ck", .size_bytes = (uint64_t)100 << 30};
    char key[KV_KEY_MAX];
    snprintf(record.node, sizeof(record.node), "a");
    for (unsigned i = 0; i < 2; i++) {
        keys_digest(record.step, record.manifest_sha256);
        keys_put_tree(&mirror, keys_checkpoint(key, CLUSTER, JOB, record.step),
                      checkpoint_record_encode(&record));
        record.step += 40;
        record.unix_ns += 20 * NS_PER_SECOND;
    }
    expect(SCRUBBING_NEW, 80);
    assert_true(task.seconds == 10);
    learn(80, now_ns, 0);
    expect(SCRUBBING_NEW, 40); /* its time is unknown */
    assert_true(task.seconds == 30);
    keys_put_checkpoint(&mirror, JOB, 120, "a", "");
    expect(SCRUBBING_NEW, 120);
    assert_true(task.seconds == 0); /* its size is nearly zero */
}

/* The choice goes through the records of all jobs every few seconds. */
static void test_a_record_is_decoded_once_until_it_changes(void **state)
{
    (void)state;
    char key[KV_KEY_MAX];
    keys_put_checkpoint(&mirror, JOB, 40, "a", "");
    expect(SCRUBBING_NEW, 40);
    const struct mirror_entry *entry = mirror_find(&mirror, keys_checkpoint(key, CLUSTER, JOB, 40));
    const void *meaning = entry->meaning;
    assert_non_null(meaning);
    expect(SCRUBBING_NEW, 40);
    assert_ptr_equal(entry->meaning, meaning);
    keys_put_checkpoint(&mirror, JOB, 40, "b", ""); /* recorded by another node */
    expect(SCRUBBING_NOTHING, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_newest_comes_first),
        TEST(test_in_turns_the_oldest),
        TEST(test_every_week_again_and_new_ones_before),
        TEST(test_one_that_could_not_be_read_rests),
        TEST(test_each_node_reads_what_is_its_own),
        TEST(test_with_copies_every_node_reads_its_part),
        TEST(test_damage_makes_the_others_doubtful),
        TEST(test_damage_in_a_record_is_noticed_once),
        TEST(test_more_than_it_remembers_are_looked_at_again),
        TEST(test_a_record_is_decoded_once_until_it_changes),
        TEST(test_reading_takes_half_of_the_time_between_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
