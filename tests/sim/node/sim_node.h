/*
 * A machine: its power, its daemon, and the files that a daemon leaves on disk for the next one.
 */
#pragma once

#include "daemon/core/daemon.h"
#include "daemon/jobs/neighbours_file.h"
#include "sim/node/sim_store.h"

#define SIM_NODE_FOLDER "/nodes/" /* followed by the node's name: the path of its own disk */

/* One life of firnd: daemon/core/daemon.h's object, wired to simulated surroundings. */
struct sim_firnd {
    struct sim *sim;
    unsigned node;
    struct sim_client client;
    struct config config;
    struct daemon daemon;
    struct sim_event *reconcile;
};

/* Another node, as a lone node knew it when the lone node last reached etcd. */
struct sim_company {
    uint64_t registered_ns; /* since when it was registered; 0: it was not */
    bool known;             /* it was once registered for long enough */
};

/* A scene's settings of a machine; all zero in histories from seeds. */
struct sim_machine {
    char numerics_identity[RECORD_NUMERICS_SIZE];      /* of its slots */
    char last_numerics_identity[RECORD_NUMERICS_SIZE]; /* of its last slot; "": as the others */
    unsigned control, control_oldest; /* control protocols that its firnd reports; 0: none */
    double slowness[SIM_SLOTS_MAX];   /* of each slot: times slower than its peers; 0: as fast */
    bool is_deaf;                     /* its workers ignore the order to stop */
};

struct sim_node {
    struct sim *sim;
    struct sim_machine machine;
    unsigned index, slot_count;
    unsigned links; /* protocol of the workers that it starts */
    char name[NAME_SIZE];
    bool up;
    bool starts_fail, steps_fail; /* every process started here dies: at once, or when it trains */
    uint64_t incarnation;         /* of the last daemon, from its data folder */
    struct sim_firnd *firnd;      /* NULL: none runs */
    struct sim_pause firnd_pause; /* SIGSTOP */
    uint64_t disturbed_ns;        /* when a fault last touched it */
    uint64_t watch_stalled_ns;    /* its daemon's watch is silent until then */
    struct sim_company company[SIM_NODES_MAX];
    uint64_t reached_ns;                    /* when it last reached etcd while it trained alone */
    struct neighbour known[NEIGHBOURS_MAX]; /* known to its daemons since it was switched on */
    unsigned known_count;
};

unsigned sim_node_index(const struct sim *sim, const char *name);
const char *sim_node_name(const struct sim *sim, unsigned index);
struct sim_node *sim_node_by_http(const struct sim *sim, const char *url);

/** sim_firnd_start() - Start firnd as systemd does, unless it runs or the node is without power */
void sim_firnd_start(struct sim_node *node);
/** sim_firnd_end() - End firnd; @gently: firnd resigns its leadership (an upgrade), else it is
 * killed */
void sim_firnd_end(struct sim_node *node, bool gently);
void sim_node_lose(struct sim_node *node);
void sim_node_return(struct sim_node *node);
void sim_node_disturb(struct sim_node *node);
