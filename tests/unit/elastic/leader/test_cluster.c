/*
 * Random faults against leader and agents together. A seed is a whole history. The last printed
 * seed is the failed one (FIRN_SEED=n FIRN_VERBOSE=1 replays it, FIRN_SEEDS=n tries more).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/elastic/cluster.h"

#define SEEDS 40

static struct fake_worker *random_worker(struct cluster *cluster)
{
    unsigned alive = cluster_alive(cluster),
             chosen = alive > 0 ? cluster_random(cluster, alive) : 0;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive && chosen-- == 0)
            return &cluster->workers[i];
    return NULL;
}

static void something_happens(struct cluster *cluster)
{
    unsigned index = cluster_random(cluster, cluster->node_count);
    struct fake_node *node = &cluster->nodes[index];
    struct fake_worker *worker = random_worker(cluster);
    switch (cluster_random(cluster, 12)) {
    case 0:
    case 1:
    case 2:
        if (worker && worker->activity != FAKE_BOOTING)
            cluster_kill_worker(cluster, worker);
        break;
    case 3:
        cluster_kill_node(cluster, index);
        break;
    case 4:
    case 5:
        if (!node->agent)
            cluster_start_daemon(cluster, index);
        break;
    case 6:
        if (node->agent) {
            cluster_note(cluster, "RESTART daemon %s", node->name);
            cluster_stop_daemon(cluster, index);
            cluster_start_daemon(cluster, index);
        }
        break;
    case 7:
        node->draining = !node->draining;
        cluster_note(cluster, "DRAIN %s: %d", node->name, node->draining);
        break;
    case 8:
        cluster->wishes.devices = cluster_random(cluster, 8);
        cluster_note(cluster, "SCALE %u", cluster->wishes.devices);
        break;
    case 9:
        if (cluster->frozen_layers < 2)
            cluster->frozen_layers++;
        break;
    case 10:
        cluster_note(cluster, "NEW LEADER");
        memset(&cluster->leader.memory, 0, sizeof(cluster->leader.memory));
        break;
    case 11:
        cluster->wishes.desired = cluster->wishes.desired == JOB_DESIRED_RUNNING
                                      ? JOB_DESIRED_PAUSED
                                      : JOB_DESIRED_RUNNING;
        cluster_note(cluster, "DESIRED %d", cluster->wishes.desired);
        break;
    default:
        break;
    }
}

static void run_history(uint64_t seed, bool verbose)
{
    struct cluster *cluster = cluster_new(seed, 2 + (unsigned)seed % 3, 1 + (unsigned)seed % 3);
    cluster->verbose = verbose;
    cluster->spec.elastic.shadow = seed % 2 == 0;
    cluster_progress(cluster, 3, 20);
    for (unsigned faults = 0; faults < 12; faults++) {
        something_happens(cluster);
        /* Faults often follow at once, sometimes after the cluster has settled. */
        cluster_run(cluster,
                    0.001 * cluster_random(cluster, cluster_random(cluster, 2) ? 300 : 6000));
    }
    for (unsigned i = 0; i < cluster->node_count; i++) {
        cluster->nodes[i].draining = false;
        if (!cluster->nodes[i].agent)
            cluster_start_daemon(cluster, i);
    }
    cluster->wishes.devices = 0;
    cluster->wishes.desired = JOB_DESIRED_RUNNING;
    cluster_progress(cluster, 10, 120);
    /* Without further faults the job settles: one plan, and no processes but its own. */
    cluster_run(cluster, 90);
    cluster_progress(cluster, 10, 5);
    assert_null(cluster->etcd.next);
    assert_int_equal(cluster_alive(cluster), cluster->etcd.plan->layout.worker_count);
    unsigned published = cluster->events.published;
    cluster_run(cluster, 30);
    assert_int_equal(cluster->events.published, published);
    cluster_free(cluster);
}

static void every_history_ends_in_training(void **state)
{
    (void)state;
    const char *one = getenv("FIRN_SEED");
    if (one) {
        run_history(strtoull(one, NULL, 10), getenv("FIRN_VERBOSE"));
        return;
    }
    const char *more = getenv("FIRN_SEEDS");
    const char *from = getenv("FIRN_FIRST");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1;
    uint64_t seeds = more ? strtoull(more, NULL, 10) : SEEDS;
    for (uint64_t seed = first; seed <= seeds; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run_history(seed, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_history_ends_in_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
