/*
 * Tests of a commit in dispute: a worker that knows of the dispute drops its gradients or state,
 * also if the links break before every worker has received the verdict.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"
#include "lib/worker/tiny_state.h"

#include "lib/elastic/ranked_plan.h"
#include "worker/session/commit_agreement.h"
#include "worker/session/session.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"

#define RANKS 3 /* a root and its children */
#define STEP  41

struct crew_member {
    struct tiny_state tiny;
    struct engine engine;
    struct trainer trainer;
    struct step_commit_up up;
    struct step_commit_down down;
    struct error error;
    int status;
    pthread_t thread;
};

/* Make a plan of one stage with one replica for each rank. */
static struct plan *plan_of_replicas(unsigned unit_count)
{
    struct plan *plan = ranked_plan(RANKS);

    plan->layout.stage_count = 1;
    plan->layout.replica_count = RANKS;
    plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(RANKS + 1, sizeof(unsigned));
    assert_true(plan->layout.stage_first_unit && plan->layout.replica_first_lane);
    plan->layout.stage_first_unit[1] = unit_count;
    for (unsigned i = 0; i < RANKS; i++)
        plan->layout.replica_first_lane[i + 1] = i + 1;
    return plan;
}

/* Put the member at the end of a step that all ranks have computed alike. */
static void member_init(struct crew_member *member, unsigned rank)
{
    struct error error = {0};

    tiny_state_init(&member->tiny, true);
    struct state *state = member->tiny.state;
    assert_int_equal(state_initialize(state, 0, state->unit_count, &error), 0);
    state->applied_step = STEP - 1;
    state->holds = true;
    step_record_init(&member->up.record, STEP, state->unit_count, RANKS);
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        member->up.record.unit_squares[unit] = 0.5;
    member->up.record.lane_losses[rank] = 1;
    member->up.data_digest = 77;
    member->engine.part.rank = rank;
    member->trainer =
        (struct trainer){.spec = member->tiny.spec, .state = state, .engine = &member->engine};
    assert_int_equal(state_digest_new(state, &member->engine.check), 0);
}

static void member_done(struct crew_member *member)
{
    state_digest_free(member->engine.check);
    tiny_state_done(&member->tiny);
}

static void *run_member(void *context)
{
    struct crew_member *member = context;
    static const struct commit_root root = {0};

    state_digest_run(member->engine.check, &member->trainer.plan->layout, member->engine.part.rank,
                     false);
    member->status = commit_agreement_run(&member->trainer, false, &member->up, &root,
                                          &member->down, &member->error);
    if (member->status < 0)
        mesh_abort(member->trainer.links.mesh, "goes");
    return NULL;
}

/*
 * Run an agreement that fails. @about: the value in which rank 1 differs from the root. Rank 2,
 * which is received after rank 1, breaks off.
 */
static void agree_in_vain(enum dispute_about about, int status_of_root)
{
    struct crew_member *members = calloc(RANKS, sizeof(*members));
    struct world world;

    assert_non_null(members);
    world_init(&world, RANKS);
    world_open(&world);
    for (unsigned i = 0; i < RANKS; i++)
        member_init(&members[i], i);
    struct plan *plan = plan_of_replicas(members[0].tiny.state->unit_count);
    const struct state *odd = members[1].tiny.state;
    if (about == DISPUTE_STATE)
        odd->units[(STEP - 1) % odd->unit_count].parameters[0] += 1;
    else if (about == DISPUTE_GRADIENTS)
        members[1].up.record.unit_squares[0] = 0.25;
    members[2].up.data_digest = 78;
    for (unsigned i = 0; i < RANKS; i++) {
        members[i].trainer.links.mesh = world.meshes[i];
        members[i].trainer.plan = plan;
        assert_int_equal(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
    }
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    assert_int_equal(members[0].status, status_of_root);
    assert_int_equal(members[0].tiny.state->holds, about == DISPUTE_NOTHING);
    for (unsigned i = 0; i < RANKS; i++)
        member_done(&members[i]);
    world_close(&world);
    world_done(&world);
    plan_free(plan);
    free(members);
}

static void test_a_dispute_that_not_all_hear_of_counts(void **state)
{
    (void)state;
    agree_in_vain(DISPUTE_NOTHING, -EILSEQ);
    agree_in_vain(DISPUTE_GRADIENTS, -ECONNRESET);
    agree_in_vain(DISPUTE_STATE, -EUCLEAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dispute_that_not_all_hear_of_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
