#include "sim/scene/scene_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/jobs/slot_service.h"
#include "membership/kv/keys.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_faults.h"

#define ELECTION_SECONDS 20

/* Note a disturbance of @node: the checkers excuse its consequences. */
static struct sim_node *disturb(struct scene *scene, unsigned node)
{
    sim_node_disturb(&scene->sim->nodes[node]);
    scene->sim->faults->disturbed_ns = scene->sim->now_ns;
    return &scene->sim->nodes[node];
}

/* ---- an operator ---- */

void scene_wish(struct scene *scene, const struct desired_record *wish)
{
    char key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = desired_record_encode(wish);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(scene->sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "desired"), text);
}

static const char *drain_key(const struct scene *scene, unsigned node, char ret_key[KV_KEY_MAX])
{
    size_t length = strlen(keys_cluster(ret_key, SIM_CLUSTER));
    snprintf(ret_key + length, KV_KEY_MAX - length, "drains/%s", sim_node_name(scene->sim, node));
    return ret_key;
}

void scene_drain(struct scene *scene, unsigned node, uint64_t deadline_ns)
{
    char key[KV_KEY_MAX], value[64] = "{}";
    if (deadline_ns != SCENE_NO_DEADLINE)
        snprintf(value, sizeof(value), "{\"deadline_unix_ns\":%" PRIu64 "}", deadline_ns);
    disturb(scene, node);
    sim_store_put(scene->sim->store, drain_key(scene, node, key), value);
}

void scene_drain_no_more(struct scene *scene, unsigned node)
{
    char key[KV_KEY_MAX];
    disturb(scene, node);
    sim_store_delete(scene->sim->store, drain_key(scene, node, key));
}

void scene_stop_daemon(struct scene *scene, unsigned node)
{
    sim_firnd_end(disturb(scene, node), true);
}

void scene_start_daemon(struct scene *scene, unsigned node)
{
    sim_firnd_start(disturb(scene, node));
}

void scene_upgrade(struct scene *scene, unsigned node)
{
    scene_stop_daemon(scene, node);
    scene->sim->nodes[node].links++;
    scene_start_daemon(scene, node);
}

void scene_take_out(struct scene *scene, unsigned node, unsigned slot, bool comes_back)
{
    struct sim_firnd *firnd = disturb(scene, node)->firnd;
    assert_non_null(firnd);
    (void)slot_service_take_out(firnd->daemon.node.slot_service, slot, "broken", comes_back);
}

void scene_excuse(struct scene *scene, unsigned node)
{
    disturb(scene, node);
    sim_faults_excuse(scene->sim, &scene->sim->nodes[node]);
}

static void put_record(struct scene *scene, uint64_t step, uint64_t generation)
{
    struct checkpoint_record record = {.step = step, .generation = generation, .size_bytes = 1};
    char key[KV_KEY_MAX];
    sim_disk_path(step, record.path, sizeof(record.path));
    memset(record.manifest_sha256, 'a', sizeof(record.manifest_sha256) - 1);
    snprintf(record.node, sizeof(record.node), "%s", sim_node_name(scene->sim, 0));
    AUTO_JSON json_t *tree = checkpoint_record_encode(&record);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(scene->sim->store, keys_checkpoint(key, SIM_CLUSTER, SIM_JOB, step), text);
}

void scene_add_checkpoint(struct scene *scene, uint64_t step, uint64_t generation)
{
    struct sim_disk *disk = scene->sim->disk;
    struct sim_checkpoint *checkpoint = &disk->checkpoints[disk->count++];
    checkpoint->step = step;
    checkpoint->made_by = generation;
    memcpy(checkpoint->units, scene->sim->check->history[step], sizeof(checkpoint->units));
    put_record(scene, step, generation);
}

/* ---- faults ---- */

void scene_kill_worker(struct scene *scene, unsigned node, unsigned slot)
{
    struct sim_worker *worker = sim_worker_at(scene->sim, node, slot);
    assert_non_null(worker);
    disturb(scene, node);
    sim_worker_kill(worker);
}

void scene_kill_node(struct scene *scene, unsigned node)
{
    sim_node_lose(disturb(scene, node));
    sim_check_node_died(scene->sim);
}

void scene_return_node(struct scene *scene, unsigned node)
{
    sim_node_return(disturb(scene, node));
}

void scene_change_leader(struct scene *scene)
{
    unsigned before = scene_leader(scene);
    char name[KV_KEY_MAX];
    disturb(scene, before);
    sim_network_cut(scene->sim, before, SIM_STORE_PLACE);
    scene_until(scene, ELECTION_SECONDS,
                sim_store_find(scene->sim->store, keys_leader(name, SIM_CLUSTER)) &&
                    scene_leader(scene) != before);
    disturb(scene, before);
    sim_network_mend(scene->sim, before, SIM_STORE_PLACE);
}
