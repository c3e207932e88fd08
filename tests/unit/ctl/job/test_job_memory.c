/* The planned memory of each worker and the memory that it has taken, side by side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "ctl/job/job_memory.h"
#include "elastic/job/job_spec.h"
#include "elastic/planner/planned_worker.h"

#define WORKERS 20

static struct plan_worker plan_workers[WORKERS];
static unsigned first_unit[] = {0, 5, 10};
static unsigned first_lane[WORKERS / 2 + 1];
static struct plan plan;
static struct job_spec spec;
static struct cluster_node node;
static struct cluster cluster;
static struct cluster_job job;

static int begin(void **state)
{
    (void)state;
    spec = (struct job_spec){
        .model =
            {.family = "gpt2", .layers = 4, .width = 32, .heads = 2, .context = 32, .vocab = 256},
        .train = {.lanes = WORKERS / 2, .micro_batch = 1, .micro_batches_per_lane = 1}};
    plan = (struct plan){.generation = 7,
                         .layout.stage_count = 2,
                         .layout.replica_count = WORKERS / 2,
                         .layout.worker_count = WORKERS,
                         .layout.stage_first_unit = first_unit,
                         .layout.replica_first_lane = first_lane,
                         .layout.workers = plan_workers};
    for (unsigned i = 0; i < WORKERS; i++) {
        plan_workers[i].node[0] = 'a';
        plan_workers[i].slot = i;
        first_lane[i / 2 + 1] = i / 2 + 1;
    }
    node = (struct cluster_node){.name = "a", .record = {.slot_count = WORKERS}};
    for (unsigned i = 0; i < WORKERS; i++) {
        strcpy(node.record.slots[i].kind, i == 1 ? "cuda" : "cpu");
        node.record.slots[i].thread_count = 1;
    }
    cluster = (struct cluster){.nodes = &node, .node_count = 1};
    job = (struct cluster_job){.name = "demo", .spec = &spec, .plan = &plan};
    return 0;
}

static void test_each_worker_has_both_numbers(void **state)
{
    (void)state;
    struct worker_info infos[] = {
        {.node = "a", .slot = 0, .generation = 7, .memory_bytes = 1000},
        {.node = "b", .slot = 2, .generation = 7, .memory_bytes = 2000}, /* another node */
        {.node = "a", .slot = 3, .generation = 6, .memory_bytes = 3000}, /* another generation */
    };
    const struct worker_list list = {.workers = infos, .count = 3};
    struct job_memory *memory;
    assert_int_equal(job_memory_of(&cluster, &job, &list, &memory), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(memory[i].stage, i % 2);
        assert_int_equal(memory[i].replica, i / 2);
        assert_int_equal(memory[i].measured_bytes, i == 0 ? 1000 : 0);
        assert_int_equal(memory[i].planned_bytes,
                         planned_worker_bytes(&spec, &plan.layout, i, i == 1, 1));
    }
    assert_true(memory[1].planned_bytes < memory[3].planned_bytes);
    AUTO_JSON json_t *tree = job_memory_json(memory, WORKERS);
    assert_int_equal(json_array_size(tree), WORKERS);
    json_t *first = json_array_get(tree, 0), *second = json_array_get(tree, 1);
    assert_int_equal(json_integer_value(json_object_get(first, "measured_bytes")), 1000);
    assert_true(json_is_null(json_object_get(second, "measured_bytes")));
    assert_int_equal(json_integer_value(json_object_get(second, "planned_bytes")),
                     memory[1].planned_bytes);
    free(memory);
}

static void test_a_long_table_is_cut_and_says_so(void **state)
{
    (void)state;
    const struct worker_list list = {0};
    CLEANUP(bytes_done) struct bytes text = {0};
    struct job_memory *memory;
    assert_int_equal(job_memory_of(&cluster, &job, &list, &memory), 0);
    assert_int_equal(job_memory_append(memory, WORKERS, &text), 0);
    assert_int_equal(bytes_append(&text, "", 1), 0);
    const char *words = (const char *)text.data;
    assert_non_null(strstr(words, "PLANNED"));
    assert_non_null(strstr(words, "a/15"));
    assert_null(strstr(words, "a/16"));
    assert_non_null(strstr(words, "and 4 more; --json has all\n"));
    text.size_bytes = 0;
    assert_int_equal(job_memory_append(memory, 0, &text), 0);
    assert_int_equal(text.size_bytes, 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_worker_has_both_numbers, begin),
        cmocka_unit_test_setup(test_a_long_table_is_cut_and_says_so, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
