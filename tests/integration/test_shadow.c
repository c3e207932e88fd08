/*
 * Stages of one replica lose their worker, repeatedly and at any moment, without a checkpoint to go
 * back to. Shadows on workers of other stages bring the run to the bits of an undisturbed run. The
 * test does a leader's work through the same functions.
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

#include "elastic/planner/shadow_stages.h"
#include "elastic/recovery/recovery.h"
#include "elastic/recovery/state_moves.h"
#include "integration/worker_crew.h"

#define STEPS   60
#define WORKERS 4

static unsigned stood, replayed;

static struct job_spec shadowed_job(void)
{
    struct job_spec spec = crew_job("shadow", CREW_GPT2, STEPS, 4, 2);

    spec.elastic.shadow = true;
    spec.elastic.freeze.every = 17;
    spec.evaluate.every = 8;
    spec.evaluate.batches = 5;
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

/* Return whether every remaining worker has reported the state that it holds, or has finished. */
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

/* Plan one replica over the remaining workers, each on its node, with shadows as a leader places
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
        struct plan_worker *worker = &plan->layout.workers[i];
        snprintf(worker->node, sizeof(worker->node), "n%u", slots[i]);
        snprintf(worker->address, sizeof(worker->address), "127.0.0.1:%u", crew->port + slots[i]);
        worker->slot = slots[i];
        worker->instance = crew->workers[slots[i]].status.instance;
    }
    const struct slot_rates rates = slot_rates(false, JOB_PRECISION_F32);
    planner_units(&crew->spec.model, &crew->spec.train, 0, &rates, units);
    assert_int_equal(shadow_stages_assign(&input, plan), 0);
    assert_int_equal(plan->layout.shadow_count, count > 1 ? count : 0);
    return plan;
}

/* List the units that a worker of @plan has in memory while it trains. */
static void list_kept(const struct plan *plan, unsigned rank, struct state_moves_holder *holder)
{
    unsigned ranges = 0;

    for (unsigned unit = 0; unit < plan_layout_unit_count(&plan->layout); unit++)
        if (plan_layout_keeps(&plan->layout, rank, unit))
            holder->held[ranges++] = (struct state_moves_range){unit, 1};
}

static void name_holder(const struct plan *plan, unsigned rank, struct state_moves_holder *holder)
{
    memcpy(holder->node, plan->layout.workers[rank].node, sizeof(holder->node));
    memcpy(holder->address, plan->layout.workers[rank].address, sizeof(holder->address));
    holder->slot = plan->layout.workers[rank].slot;
    holder->instance = plan->layout.workers[rank].instance;
}

/* Plan one worker less, as on request: the switch waits for a boundary. */
static struct plan *leave_one_out(struct crew *crew, const struct plan *before, unsigned slot)
{
    bool *exited = &crew->workers[slot].exited;
    struct state_moves_holder holders[WORKERS];
    struct error error = {0};

    memset(holders, 0, sizeof(holders));
    for (unsigned rank = 0; rank < before->layout.worker_count; rank++) {
        name_holder(before, rank, &holders[rank]);
        list_kept(before, rank, &holders[rank]);
    }
    *exited = true; /* only so that it is skipped */
    struct plan *plan = plan_of_survivors(crew);
    *exited = false;
    plan->change.planned = true;
    plan->start.source = PLAN_SOURCE_MEMORY;
    if (state_moves_fill(plan, holders, before->layout.worker_count, NULL, &error) ||
        plan_check(plan, &error))
        fail_msg("%s", error.text);
    return plan;
}

/* Make the plan that follows from the reports: nothing may be missing. */
static struct plan *recover(struct crew *crew)
{
    struct plan *plan = plan_of_survivors(crew);
    AUTO_FREE struct worker_report *reports = calloc(WORKERS, sizeof(*reports));
    AUTO_FREE struct recovery *recovery = calloc(1, sizeof(*recovery));
    struct state_moves_holder holders[WORKERS];
    struct error error = {0};
    unsigned count = 0;

    memset(holders, 0, sizeof(holders));
    for (unsigned slot = 0; slot < crew->count; slot++)
        if (lives(crew, slot))
            reports[count++] = crew->workers[slot].status;
    if (recovery_decide(reports, count, job_model_unit_count(&crew->spec.model),
                        crew->spec.train.lanes, crew->spec.train.on_nan, recovery, &error))
        fail_msg("%s", error.text);
    assert_int_not_equal(recovery->kind, RECOVERY_CHECKPOINT);
    for (unsigned i = 0; i < count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        unsigned range_count = recovery_ranges(recovery, &reports[i], ranges);
        name_holder(plan, i, &holders[i]);
        for (unsigned n = 0; n < range_count; n++)
            holders[i].held[n] = (struct state_moves_range){ranges[n].first, ranges[n].count};
    }
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = recovery->step;
    plan->start.has_commit = !step_record_is_empty(&recovery->commit);
    plan->start.commit = recovery->commit;
    if (state_moves_fill(plan, holders, count, NULL, &error) || plan_check(plan, &error))
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

/* Kill a worker of the running plan at some moment; false if all workers had ended before. */
static bool lose_one(struct crew *crew)
{
    unsigned victim = next_random(WORKERS);

    if (crew_finished(crew, NULL))
        return false;
    while (!lives(crew, victim))
        victim = (victim + 1) % WORKERS;
    poll(NULL, 0, (int)next_random(60));
    crew_kill(crew, victim, SIGKILL);
    crew_pump(crew, is_gone, &victim, 20);
    crew_pump(crew, all_settled, NULL, 20);
    return !crew_finished(crew, NULL);
}

/* Start WORKERS stages of one replica; workers die until one worker is left with the whole run. */
static void run_with_losses(const char *alone, const char *digest)
{
    struct job_spec spec = shadowed_job();
    struct crew crew;
    struct plan *plan;
    unsigned last = 0;
    char other_digest[33];

    crew_init(&crew, &spec);
    for (unsigned slot = 0; slot < WORKERS; slot++)
        crew_spawn(&crew, slot);
    plan = plan_of_survivors(&crew);
    for (unsigned left = WORKERS; left > 1; left--) {
        for (unsigned i = 0; plan->start.source == PLAN_SOURCE_FRESH && i < left; i++)
            plan->layout.workers[i].instance = 0;
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
    crew_digest(&crew, STEPS, other_digest);
    crew_expect_same(alone, exact, digest, other_digest);
    plan_free(plan);
    crew_done(&crew);
}

static char *run_alone(char ret_digest[33])
{
    struct job_spec spec = shadowed_job();
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

static bool goes_on(const struct crew *crew, void *context)
{
    return crew->workers[*(unsigned *)context].progress.step > 0 || crew_finished(crew, NULL);
}

/* Two replicas that one node could have had: the first feeds the shadow, and both are lost. */
static void test_replicas_that_die_together_have_a_copy(void **state)
{
    char digest[33], other_digest[33];
    AUTO_FREE char *alone = run_alone(digest);
    struct job_spec spec = shadowed_job();

    (void)state;
    for (unsigned stage = 0; stage < 2; stage++) {
        struct crew crew;
        unsigned victims[] = {stage, 2 + stage}, witness = 1 - stage;
        crew_init(&crew, &spec);
        for (unsigned slot = 0; slot < WORKERS; slot++)
            crew_spawn(&crew, slot);
        struct plan *plan = crew_plan(&crew, 2, 2);
        plan->layout.shadow_count = 2;
        plan->layout.shadows = calloc(2, sizeof(*plan->layout.shadows));
        plan->layout.shadows[0] = (struct plan_shadow){0, 3};
        plan->layout.shadows[1] = (struct plan_shadow){1, 2};
        crew_send(&crew, plan, CONTROL_SWITCH);
        crew_pump(&crew, all_run, plan, 30);
        crew_pump(&crew, goes_on, &witness, 30);
        crew_kill(&crew, victims[0], SIGKILL);
        crew_kill(&crew, victims[1], SIGKILL);
        crew_pump(&crew, is_gone, &victims[0], 20);
        crew_pump(&crew, is_gone, &victims[1], 20);
        crew_pump(&crew, all_settled, NULL, 20);
        plan_free(plan);
        plan = crew_finished(&crew, NULL) ? NULL : recover(&crew);
        if (plan)
            crew_send(&crew, plan, CONTROL_SWITCH);
        crew_pump(&crew, crew_finished, NULL, 120);
        AUTO_FREE char *exact = crew_exact(&crew, witness);
        crew_digest(&crew, STEPS, other_digest);
        crew_expect_same(alone, exact, digest, other_digest);
        plan_free(plan);
        crew_done(&crew);
    }
}

/* Four stages, three by a planned switch, two after a loss, one after another. */
static void test_copies_follow_planned_switches(void **state)
{
    char digest[33], other_digest[33];
    AUTO_FREE char *alone = run_alone(digest);
    struct job_spec spec = shadowed_job();

    (void)state;
    for (unsigned leaver = 0; leaver < WORKERS; leaver++) {
        struct crew crew;
        unsigned last = 0;
        crew_init(&crew, &spec);
        for (unsigned slot = 0; slot < WORKERS; slot++)
            crew_spawn(&crew, slot);
        struct plan *plan = plan_of_survivors(&crew);
        for (unsigned i = 0; i < WORKERS; i++)
            plan->layout.workers[i].instance = 0;
        crew_send(&crew, plan, CONTROL_SWITCH);
        crew_pump(&crew, all_run, plan, 30);
        for (unsigned i = 0; i < WORKERS; i++)
            plan->layout.workers[i].instance = crew.workers[i].status.instance;
        struct plan *next = leave_one_out(&crew, plan, leaver);
        crew_send(&crew, next, CONTROL_SWITCH);
        crew_pump(&crew, is_gone, &leaver, 30);
        crew_pump(&crew, all_run, next, 30);
        plan_free(plan);
        plan_free(next);
        plan = lose_one(&crew) ? recover(&crew) : NULL;
        if (plan)
            crew_send(&crew, plan, CONTROL_SWITCH);
        crew_pump(&crew, crew_finished, NULL, 120);
        while (last + 1 < WORKERS && (last == leaver || crew.workers[last].exit_status != 0))
            last++;
        AUTO_FREE char *exact = crew_exact(&crew, last);
        crew_digest(&crew, STEPS, other_digest);
        crew_expect_same(alone, exact, digest, other_digest);
        plan_free(plan);
        crew_done(&crew);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_of_one_replica_survive_in_their_shadows),
        cmocka_unit_test(test_replicas_that_die_together_have_a_copy),
        cmocka_unit_test(test_copies_follow_planned_switches)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
