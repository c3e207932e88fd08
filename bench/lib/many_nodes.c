#include "bench/lib/many_nodes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mapped_blocks.h"
#include "bench/lib/paper_worker.h"
#include "daemon/cluster.h"
#include "daemon/core/daemon.h"
#include "daemon/reconcile.h"

#define TURN_MS 5 /* longest time between two turns */
#define LOOK_NS                                                                                    \
    (10 * NS_PER_MS) /* between two checks of the gate and of all nodes, which take a while */
#define TURNS_MAX 64 /* nodes served in one turn */

struct node {
    struct config config;
    struct daemon daemon;
};

static int node_start(struct node *node, const struct many_options *options, unsigned index)
{
    struct config *config = &node->config;
    struct daemon *daemon = &node->daemon;
    struct error error = {0};

    snprintf(config->cluster, sizeof(config->cluster), MANY_CLUSTER);
    snprintf(config->node, sizeof(config->node), "n%04u", index);
    snprintf(config->endpoints, sizeof(config->endpoints), "%s", options->endpoints);
    snprintf(config->address, sizeof(config->address), "10.%u.%u.1", index / 250, index % 250);
    snprintf(config->http, sizeof(config->http), "10.%u.%u.1:7400", index / 250, index % 250);
    snprintf(config->data_dir, sizeof(config->data_dir), "%.300s/%s", options->folder,
             config->node);
    snprintf(config->checkpoint_dir, sizeof(config->checkpoint_dir), "%.300s/checkpoints",
             options->folder);
    config->link_port = 7600;
    config->slots = 1;
    config->threads = 1;
    config->slot_memory_mb = 1 << 16;
    config->failure_timeout_ns = 1500000000;
    daemon->config = config;
    daemon->node.incarnation = index + 1;
    int status = event_loop_init(&daemon->loop);
    if (status == 0)
        status = reconcile_init(daemon);
    if (status == 0)
        status = cluster_join(daemon, 0, &error);
    if (status < 0)
        fprintf(stderr, "node %s cannot start: %s\n", config->node, error.text);
    return status;
}

/* Publish the state of all nodes. Return whether the state has changed. */
static bool publish(const struct node *nodes, unsigned count, struct many_state *state)
{
    unsigned registered = 0, following = 0, leads = 0;
    uint64_t generation = paper_workers_newest();
    unsigned running = generation ? paper_workers_running(generation) : 0;

    for (unsigned i = 0; i < count; i++) {
        const struct daemon *daemon = &nodes[i].daemon;
        registered += daemon->node.registered;
        following += daemon->node.election && election_leader(daemon->node.election)[0] != '\0';
        leads +=
            daemon->node.election && election_leads(daemon->node.election) && !daemon->keys.partial;
    }
    bool changed = registered != state->registered || following != state->following ||
                   leads != state->leads || generation != state->generation ||
                   running != state->running;
    state->registered = registered;
    state->following = following;
    state->leads = leads;
    state->generation = generation;
    state->running = running;
    return changed;
}

/* Break the worker of the cluster's first follower when the benchmark asks for it. Every process
 * finds the same follower. */
static bool break_if_told(const struct node *nodes, struct many_state *state, uint64_t *broken)
{
    uint64_t told = state->fail_generation;

    if (told == *broken)
        return false;
    *broken = told;
    const char *leader = election_leader(nodes[0].daemon.node.election);
    paper_workers_break(told, strcmp(leader, "n0000") ? "n0000" : "n0001");
    return true;
}

static bool resign_if_told(struct node *nodes, unsigned count, const struct many_state *state)
{
    if (!state->resigned || !nodes[0].daemon.node.election)
        return false;
    for (unsigned i = 0; i < count; i++) {
        election_stop(nodes[i].daemon.node.election);
        nodes[i].daemon.node.election = NULL;
    }
    return true;
}

static bool gate_gone(int gate)
{
    struct pollfd look = {.fd = gate};

    return poll(&look, 1, 0) == 1 && look.revents & POLLHUP;
}

/*
 * Run all due events on a node's event loop, and leave the loop armed. With all nodes on one loop,
 * each event would cost a query for the events of all nodes, which a real firnd does not pay and
 * which would take most of the time with a thousand nodes.
 */
static int serve(const struct node *node)
{
    sd_event *event = node->daemon.loop.event;
    int status = sd_event_wait(event, 0);

    if (status > 0)
        status = sd_event_dispatch(event);
    while (status >= 0 && (status = sd_event_prepare(event)) > 0)
        status = sd_event_dispatch(event);
    return status;
}

static int watch_node(int nodes_ready, struct node *node)
{
    sd_event *event = node->daemon.loop.event;
    struct epoll_event ready = {.events = EPOLLIN, .data.ptr = node};
    int status;

    if (epoll_ctl(nodes_ready, EPOLL_CTL_ADD, sd_event_get_fd(event), &ready) < 0)
        return -errno;
    while ((status = sd_event_prepare(event)) > 0)
        if ((status = sd_event_dispatch(event)) < 0)
            break;
    return status;
}

static int serve_ready(int nodes_ready)
{
    struct epoll_event ready[TURNS_MAX];
    int count = epoll_wait(nodes_ready, ready, TURNS_MAX, TURN_MS);

    if (count < 0 && errno != EINTR)
        return -errno;
    for (int i = 0; i < count; i++) {
        int status = serve(ready[i].data.ptr);
        if (status < 0)
            return status;
    }
    return 0;
}

/* Serve all nodes: a loop does not notice changes made to its node from outside. */
static int serve_all(const struct node *nodes, unsigned count)
{
    int status = 0;

    for (unsigned i = 0; status >= 0 && i < count; i++)
        status = serve(&nodes[i]);
    return status;
}

static int start_all(struct node *nodes, const struct many_options *options, int nodes_ready)
{
    int status = 0;

    for (unsigned i = 0; status >= 0 && i < options->count; i++) {
        status = node_start(&nodes[i], options, options->first + i);
        if (status >= 0)
            status = watch_node(nodes_ready, &nodes[i]);
    }
    return status;
}

int many_nodes_run(const struct many_options *options, struct many_state *state)
{
    struct node *nodes = calloc(options->count, sizeof(*nodes));
    int nodes_ready = epoll_create1(EPOLL_CLOEXEC);
    uint64_t broken = 0, looked_ns = 0;
    char open;

    log_set_level(LOG_LEVEL_ERROR);
    mapped_blocks_from(128 * 1024); /* as firnd does */
    if (!nodes || nodes_ready < 0 || read(options->gate, &open, 1) != 1 ||
        start_all(nodes, options, nodes_ready) < 0)
        return 1;
    while (true) {
        const uint64_t one = 1;
        if (serve_ready(nodes_ready) < 0)
            return 1;
        if (clock_monotonic_ns() - looked_ns < LOOK_NS)
            continue;
        looked_ns = clock_monotonic_ns();
        if (gate_gone(options->gate))
            return 0;
        bool told = break_if_told(nodes, state, &broken);
        told |= resign_if_told(nodes, options->count, state);
        if (told && serve_all(nodes, options->count) < 0)
            return 1;
        if (publish(nodes, options->count, state) &&
            write(options->news, &one, sizeof(one)) != sizeof(one))
            return 1;
    }
}
