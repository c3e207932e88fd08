#include "sim/scene/scene.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"
#include "sim/check/sim_check.h"

#define STEPS            6000
#define LANE_NS          (10 * NS_PER_MS) /* of the whole model, forward and backward */
#define TICK_NS          (5 * NS_PER_MS)
#define REGISTER_SECONDS 20
#define PROGRESS_SECONDS 5
#define STEPS_AT_FIRST   5

/* ---- watching the store ---- */

static struct plan *decode_plan(const char *text)
{
    AUTO_JSON json_t *tree = NULL;
    struct plan *plan = NULL;
    struct error error = {0};
    if (json_parse(text, strlen(text), "a plan", &tree, &error) < 0 ||
        plan_decode(tree, &plan, &error) < 0)
        fail_msg("%s", error.text);
    return plan;
}

/* Return whether the key has changed. */
static bool look_at(const struct sim *sim, const char *leaf, struct scene_key *seen)
{
    char name[KV_KEY_MAX];
    const struct sim_store_key *key =
        sim_store_find(sim->store, keys_job(name, SIM_CLUSTER, SIM_JOB, leaf));
    int64_t revision = key ? key->mod_revision : 0;
    if (revision == seen->revision)
        return false;
    plan_free(seen->plan);
    seen->plan = key ? decode_plan(key->value) : NULL;
    seen->revision = revision;
    return true;
}

static void count_published(struct scene *scene, bool is_first)
{
    const struct plan *plan = scene->generation.plan;
    struct error error = {0};
    if (plan_check(plan, &error) < 0)
        fail_msg("plan: %s", error.text);
    scene->writes.published++;
    scene->writes.reasons[plan->change.reason]++;
    scene->writes.restarts_from_disk += !is_first && plan->start.source != PLAN_SOURCE_MEMORY &&
                                        plan->change.reason == PLAN_REASON_FAILURE;
}

static void look_at_state(struct scene *scene)
{
    char name[KV_KEY_MAX];
    AUTO_JSON json_t *tree = NULL;
    struct error error = {0};
    const struct sim_store_key *key =
        sim_store_find(scene->sim->store, keys_said(name, SIM_CLUSTER, SIM_JOB, "state"));
    if (key && (json_parse(key->value, strlen(key->value), "a state", &tree, &error) < 0 ||
                state_record_decode(tree, &scene->state, &error) < 0))
        fail_msg("%s", error.text);
}

/* Look at the store after every event, so that no write is missed. */
static void look(struct scene *scene)
{
    struct sim *sim = scene->sim;
    if (sim->store->revision == scene->seen_revision)
        return;
    scene->seen_revision = sim->store->revision;
    bool is_first = !scene->generation.plan;
    bool is_published = look_at(sim, "generation", &scene->generation);
    bool is_changed = look_at(sim, "next", &scene->next);
    if (is_published)
        count_published(scene, is_first);
    if (is_changed && scene->next.plan)
        scene->writes.prepared++;
    else if (is_changed && !is_published)
        scene->writes.dropped++;
    look_at_state(scene);
}

/* ---- time ---- */

static void pass(void *context)
{
    (void)context;
}

void scene_tick(struct scene *scene)
{
    struct sim *sim = scene->sim;
    uint64_t until_ns = sim->now_ns + TICK_NS;
    sim_post(sim, until_ns, NULL, pass, NULL); /* time passes even if all machines are off */
    while (!sim->failed && sim->now_ns < until_ns && sim_step(sim))
        look(scene);
    if (sim->failed)
        fail_msg("a rule is broken %s", sim->failure);
}

void scene_run(struct scene *scene, double seconds)
{
    uint64_t until_ns = scene->sim->now_ns + (uint64_t)(seconds * 1e9);
    while (scene->sim->now_ns < until_ns)
        scene_tick(scene);
}

void scene_progress(struct scene *scene, unsigned steps)
{
    uint64_t target = scene_committed(scene) + steps;
    scene_until(scene, PROGRESS_SECONDS, scene_trains(scene) && scene_committed(scene) >= target);
}

void scene_fail(const struct scene *scene, double seconds, const char *condition)
{
    fail_msg("not in %.1f s: %s (%s: %s; generation %llu: %s)", seconds, condition,
             scene->state.state, scene->state.text,
             (unsigned long long)(scene_plan(scene) ? scene_plan(scene)->generation : 0),
             scene_plan(scene) ? scene_plan(scene)->change.text : "none");
}

/* ---- the cluster ---- */

struct scene *scene_new(unsigned nodes, unsigned slots)
{
    const struct sim_costs costs = {.lane_ns = LANE_NS};
    struct scene *scene = sim_allocate(1, sizeof(*scene));
    sim_drop_logs();
    scene->sim = sim_new_scene(STEPS, SCENE_CHECKPOINT_EVERY, nodes, &costs);
    for (unsigned i = 0; i < nodes; i++)
        scene->sim->nodes[i].slot_count = slots;
    return scene;
}

void scene_power_on(struct scene *scene, unsigned node)
{
    struct sim_node *machine = &scene->sim->nodes[node];
    sim_node_return(machine);
    scene_until(scene, REGISTER_SECONDS,
                machine->firnd && machine->firnd->daemon.node.registered &&
                    (node > 0 || election_leads(machine->firnd->daemon.node.election)));
}

void scene_submit(struct scene *scene)
{
    sim_submit(scene->sim);
}

void scene_begin(struct scene *scene)
{
    for (unsigned i = 0; i < scene->sim->node_count; i++)
        scene_power_on(scene, i);
    scene_submit(scene);
}

struct scene *scene_training(unsigned nodes, unsigned slots)
{
    struct scene *scene = scene_new(nodes, slots);
    scene_begin(scene);
    scene_progress(scene, STEPS_AT_FIRST);
    return scene;
}

void scene_free(struct scene *scene)
{
    if (scene->sim->failed)
        fail_msg("a rule is broken %s", scene->sim->failure);
    plan_free(scene->generation.plan);
    plan_free(scene->next.plan);
    sim_free(scene->sim);
    free(scene);
}

/* ---- observations ---- */

bool scene_is(const struct scene *scene, const char *state)
{
    return strcmp(scene->state.state, state) == 0;
}

bool scene_says(const struct scene *scene, const char *words)
{
    return strstr(scene->state.text, words);
}

bool scene_explains(const struct scene *scene, const char *words)
{
    return strstr(scene_plan(scene)->change.text, words);
}

uint64_t scene_committed(const struct scene *scene)
{
    return scene->sim->check->committed_step;
}

uint64_t scene_checkpoint(const struct scene *scene)
{
    return sim_check_newest_record(scene->sim);
}

static bool rank_trains(const struct scene *scene, unsigned rank)
{
    const struct plan *plan = scene_plan(scene);
    const struct plan_worker *place = &plan->layout.workers[rank];
    const struct sim_worker *worker =
        sim_worker_at(scene->sim, sim_node_index(scene->sim, place->node), place->slot);
    return worker && worker->generation == plan->generation && worker->phase == WORKER_RUNNING;
}

bool scene_trains(const struct scene *scene)
{
    const struct plan *plan = scene_plan(scene);
    bool trains = plan && plan->layout.worker_count > 0;
    for (unsigned rank = 0; trains && rank < plan->layout.worker_count; rank++)
        trains = rank_trains(scene, rank);
    return trains;
}

int scene_rank(const struct scene *scene, unsigned node, unsigned slot)
{
    return plan_layout_find(&scene_plan(scene)->layout, sim_node_name(scene->sim, node), slot);
}

bool scene_uses(const struct scene *scene, unsigned node, unsigned slot)
{
    int rank = scene_rank(scene, node, slot);
    return rank >= 0 && (unsigned)rank < scene_plan(scene)->layout.worker_count;
}

unsigned scene_alive_on(const struct scene *scene, unsigned node)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < scene->sim->worker_count; i++)
        alive += scene->sim->workers[i]->alive && scene->sim->workers[i]->node == node;
    return alive;
}

unsigned scene_alive(const struct scene *scene)
{
    unsigned alive = 0;
    for (unsigned node = 0; node < scene->sim->node_count; node++)
        alive += scene_alive_on(scene, node);
    return alive;
}

unsigned scene_leader(const struct scene *scene)
{
    char name[KV_KEY_MAX];
    const struct sim_store_key *leader =
        sim_store_find(scene->sim->store, keys_leader(name, SIM_CLUSTER));
    assert_non_null(leader);
    return sim_node_index(scene->sim, leader->value);
}
