/*
 * Stages of one replica lose their worker, again and again and at any moment, without a checkpoint
 * to go back to: copies kept by workers of other stages bring the run to the bits of one that
 * nobody disturbed. What a leader does is done here by the same functions.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/recovery.h"
#include "elastic/shadow.h"
#include "elastic/transfer.h"
#include "integration/worker_crew.h"

#define STEPS   60
#define WORKERS 4

static unsigned stood, replayed;

static struct job_spec small_job(void)
{
    static const char text[] =
        "{\"name\":\"shadow\",\"model\":{\"family\":\"gpt2\",\"layers\":3,\"width\":32,\"heads\":2,"
        "\"context\":16,\"vocab\":256,\"tied\":true},\"data\":{\"format\":\"bytes\",\"path\":"
        "\"" FIRN_SOURCE "/elastic\",\"validation\":0.1},\"train\":{\"steps\":60,\"lanes\":4,"
        "\"micro_batch\":2,\"micro_batches_per_lane\":2,\"seed\":7,\"optimizer\":{\"lr\":0.01,"
        "\"warmup\":2}},\"elastic\":{\"shadow\":true,\"freeze\":{\"policy\":\"gradient\","
        "\"every\":17}},\"evaluate\":{\"every\":8,\"batches\":5}}";
    struct job_spec spec;
    struct error error = {0};
    json_t *tree = json_loads(text, 0, NULL);

    assert_non_null(tree);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    json_decref(tree);
    return spec;
}

static bool lives(const struct crew *crew, unsigned slot)
{
    return !crew->workers[slot].exited;
}

static bool all_run(const struct crew *crew, void *context)
{
    const struct plan *plan = context;

    for (unsigned slot = 0; slot < crew->count; slot++)
        if (lives(crew, slot) && (crew->workers[slot].status.phase != WORKER_RUNNING ||
                                  crew->workers[slot].status.generation != plan->generation))
            return false;
    return true;
}

/* Every worker that is left has said what it holds, or has come to the end. */
static bool all_settled(const struct crew *crew, void *context)
{
    (void)context;
    for (unsigned slot = 0; slot < crew->count; slot++)
        if (lives(crew, slot) && crew->workers[slot].status.phase != WORKER_STUCK)
            return false;
    return true;
}

static bool is_gone(const struct crew *crew, void *context)
{
    return crew->workers[*(unsigned *)context].exited;
}

/* One replica over the workers that are left, each on its node, with shadows as a leader places
 * them. */
static struct plan *plan_of_survivors(struct crew *crew)
{
    unsigned slots[WORKERS], count = 0;
    struct planner_unit units[STEP_RECORD_UNITS_MAX];
    struct planner_input input = {.units = units, .lanes = crew->spec.train.lanes};

    for (unsigned slot = 0; slot < crew->count; slot++)
        if (lives(crew, slot))
            slots[count++] = slot;
    struct plan *plan = crew_plan(crew, count, 1);
    for (unsigned i = 0; i < count; i++) {
        struct plan_worker *worker = &plan->workers[i];
        snprintf(worker->node, sizeof(worker->node), "n%u", slots[i]);
        snprintf(worker->address, sizeof(worker->address), "127.0.0.1:%u", crew->port + slots[i]);
        worker->slot = slots[i];
        worker->instance = crew->workers[slots[i]].status.instance;
    }
    planner_units(&crew->spec, 0, 1e9, units);
    assert_int_equal(shadow_assign(&input, plan), 0);
    assert_int_equal(plan->shadow_count, count > 1 ? count : 0);
    return plan;
}

/* Reports in, the plan that follows from them out: nothing may be missing. */
static struct plan *recover(struct crew *crew)
{
    struct plan *plan = plan_of_survivors(crew);
    AUTO_FREE struct worker_report *reports = calloc(WORKERS, sizeof(*reports));
    AUTO_FREE struct recovery *recovery = calloc(1, sizeof(*recovery));
    struct transfer_holder holders[WORKERS];
    struct error error = {0};
    unsigned count = 0;

    memset(holders, 0, sizeof(holders));
    for (unsigned slot = 0; slot < crew->count; slot++)
        if (lives(crew, slot))
            reports[count++] = crew->workers[slot].status;
    if (recovery_decide(reports, count, job_spec_unit_count(&crew->spec), crew->spec.train.lanes,
                        recovery, &error))
        fail_msg("%s", error.text);
    assert_int_not_equal(recovery->kind, RECOVERY_CHECKPOINT);
    for (unsigned i = 0; i < count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        unsigned range_count = recovery_ranges(recovery, &reports[i], ranges);
        memcpy(holders[i].node, plan->workers[i].node, sizeof(holders[i].node));
        memcpy(holders[i].address, plan->workers[i].address, sizeof(holders[i].address));
        holders[i].slot = plan->workers[i].slot;
        holders[i].instance = plan->workers[i].instance;
        for (unsigned n = 0; n < range_count; n++)
            holders[i].held[n] = (struct transfer_range){ranges[n].first, ranges[n].count};
    }
    plan->source = PLAN_SOURCE_MEMORY;
    plan->resume_step = recovery->step;
    plan->has_commit = recovery->commit.step > 0;
    plan->commit = recovery->commit;
    if (transfer_fill(plan, holders, count, NULL, &error) || plan_check(plan, &error))
        fail_msg("%s", error.text);
    stood += recovery->kind == RECOVERY_STANDS;
    replayed += recovery->kind == RECOVERY_REPLAY;
    print_message("  step %llu %s, %u workers go on\n", (unsigned long long)recovery->step,
                  recovery->kind == RECOVERY_STANDS ? "stands" : "is the last", count);
    return plan;
}

static uint64_t random_state = 11;

static unsigned next_random(unsigned below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % below;
}

/* A worker of the running plan dies at some moment; false when all had come to their end before. */
static bool lose_one(struct crew *crew)
{
    unsigned victim = next_random(WORKERS);

    while (!lives(crew, victim))
        victim = (victim + 1) % WORKERS;
    poll(NULL, 0, (int)next_random(60));
    crew_kill(crew, victim, SIGKILL);
    crew_pump(crew, is_gone, &victim, 20);
    crew_pump(crew, all_settled, NULL, 20);
    return !crew_finished(crew, NULL);
}

/* WORKERS stages of one replica; workers die until one is left; it has the whole run. */
static void run_with_losses(const char *alone, const char *digest)
{
    struct job_spec spec = small_job();
    struct crew crew;
    struct plan *plan;
    unsigned last = 0;
    char other_digest[33];

    crew_init(&crew, &spec);
    for (unsigned slot = 0; slot < WORKERS; slot++)
        crew_spawn(&crew, slot);
    plan = plan_of_survivors(&crew);
    for (unsigned left = WORKERS; left > 1; left--) {
        for (unsigned i = 0; plan->source == PLAN_SOURCE_FRESH && i < left; i++)
            plan->workers[i].instance = 0;
        crew_send(&crew, plan, CONTROL_SWITCH);
        crew_pump(&crew, all_run, plan, 30);
        if (!lose_one(&crew))
            break;
        plan_free(plan);
        plan = recover(&crew);
    }
    while (last + 1 < WORKERS && !lives(&crew, last))
        last++;
    crew_send(&crew, plan, CONTROL_SWITCH);
    crew_pump(&crew, crew_finished, NULL, 120);
    AUTO_FREE char *exact = crew_exact(&crew, last);
    assert_string_equal(alone, exact);
    crew_digest(&crew, STEPS, other_digest);
    assert_string_equal(digest, other_digest);
    plan_free(plan);
    crew_done(&crew);
}

static char *run_alone(char ret_digest[33])
{
    struct job_spec spec = small_job();
    struct crew crew;

    crew_init(&crew, &spec);
    crew_spawn(&crew, 0);
    struct plan *plan = crew_plan(&crew, 1, 1);
    crew_send(&crew, plan, CONTROL_SWITCH);
    crew_pump(&crew, crew_finished, NULL, 120);
    char *exact = crew_exact(&crew, 0);
    crew_digest(&crew, STEPS, ret_digest);
    plan_free(plan);
    crew_done(&crew);
    return exact;
}

static void test_stages_of_one_replica_survive_in_their_shadows(void **state)
{
    char digest[33];
    AUTO_FREE char *alone = run_alone(digest);

    (void)state;
    for (unsigned round = 0; round < 10; round++)
        run_with_losses(alone, digest);
    print_message("%u times a step stood, %u times it was replayed\n", stood, replayed);
    assert_true(stood + replayed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_of_one_replica_survive_in_their_shadows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
