/* The types of the miniature cluster (cluster.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "elastic/agent/agent.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader.h"

#define CLUSTER_LINKS      2 /* initial link protocol of all nodes */
#define CLUSTER_NODES      4
#define CLUSTER_SLOTS      3 /* most slots of one node */
#define CLUSTER_WORKERS    512
#define CLUSTER_INBOX      64
#define CLUSTER_EXCHANGES  8
#define CLUSTER_TICK_NS    (10 * NS_PER_MS)
#define CLUSTER_TIMEOUT_NS (1500 * NS_PER_MS)
#define CLUSTER_LEASE_NS   (10 * NS_PER_SECOND)
#define UNITS_MAX          16

enum fake_activity {
    FAKE_BOOTING,
    FAKE_IDLE,     /* sent its hello, waits for orders */
    FAKE_JOINING,  /* ordered into `plan`, waits for the others */
    FAKE_TRAINING, /* in `plan` */
    FAKE_LEAVING,  /* switched to an empty plan: saves, then exits */
};

struct fake_worker {
    bool alive;
    unsigned node, slot;
    uint64_t instance;
    enum fake_activity activity;
    struct plan *plan;             /* of its generation, or of the one it joins */
    struct plan *pending;          /* planned and received, not yet at its boundary */
    struct worker_report status;   /* its report; phase, steps and ranges are its real ones */
    bool unit_kept[UNITS_MAX];     /* in memory, reported or not */
    uint64_t unit_step[UNITS_MAX]; /* of the kept units */
    bool ready;                    /* joining: has all its units */
    bool must_switch;              /* its last applied commit carried the switch flag */
    uint64_t act_at_ns;            /* time of its next own action */
    uint64_t notice_at_ns;         /* time when it detects broken links; 0: it has */
    bool deaf;                     /* ignores STOP */
    uint64_t left_generation;      /* it said good-bye to this generation's links */
};

/* The exchange of one generation: the knowledge that its ranks share. */
struct fake_exchange {
    uint64_t generation;
    uint64_t start;     /* first step */
    uint64_t committed; /* the last step that its root has committed */
    bool switches;      /* that commit carried the switch flag */
    bool broken;
    struct step_record record; /* of `committed` */
};

/* The events on their way to the agent of a node, in order. */
struct fake_inbox {
    struct {
        uint64_t due_ns;
        struct agent_event event;
        struct worker_report status;
        unsigned worker;
    } entries[CLUSTER_INBOX];
    unsigned first, count;
};

struct fake_node {
    char name[NAME_SIZE], numerics_identity[PLAN_NUMERICS_SIZE];
    char other_numerics_identities[PLAN_NUMERICS_SIZE]; /* of its last slot; "": as all others */
    struct versions protocol;
    bool up, draining, start_fails;
    uint64_t drain_deadline_ns;
    uint64_t lease_until_ns, incarnation;
    unsigned slot_count;
    bool slot_bad[CLUSTER_SLOTS], slot_tried_again[CLUSTER_SLOTS];
    double slowness[CLUSTER_SLOTS]; /* times slower than its peers; 0: as fast */
    struct agent *agent;
    uint64_t agent_wake_ns, sync_at_ns;
    uint64_t plan_seen, next_seen; /* versions */
    struct fake_inbox inbox;
};

/* The job's records in etcd. */
struct fake_etcd {
    struct plan *plan, *next;
    uint64_t plan_version, next_version, report_version;
    struct node_report *reports[CLUSTER_NODES]; /* each of its own generation */
    uint64_t checkpoint_step, checkpoint_generation;
    bool finished;
};

/* The user's wishes; a number of 0 is none. */
struct fake_wishes {
    enum job_desired desired;
    unsigned devices, stages, replicas;
};

/* The leader, and its last decision. */
struct fake_leader {
    struct leader_memory memory;
    uint64_t at_ns, wake_ns, saw;
    enum job_state state;
    char text[512];
    bool over;  /* LEADER_FINISH */
    bool quiet; /* no node leads */
};

/* The leader's decisions so far, for assertions. */
struct fake_events {
    unsigned published, prepared, dropped, restarts_from_disk;
    unsigned reasons[PLAN_REASON_UPGRADE + 1]; /* published for each */
};

struct cluster {
    uint64_t now_ns, random;
    struct job_spec spec;
    struct fake_node nodes[CLUSTER_NODES];
    unsigned node_count, unit_count;
    struct fake_worker workers[CLUSTER_WORKERS];
    unsigned worker_count;
    struct fake_exchange exchanges[CLUSTER_EXCHANGES]; /* of the last generations, by number */
    uint64_t generation_open;                          /* the newest generation that has opened */
    uint64_t committed_ever;                           /* the largest committed step */
    unsigned frozen_layers;
    struct fake_etcd etcd;
    struct fake_wishes wishes;
    struct fake_leader leader;
    struct fake_events events;
};

/** cluster_random() - return a random number below @below, from the seed */
unsigned cluster_random(struct cluster *cluster, unsigned below);

/** cluster_delay() - return the time after a random delay of at most @max_ms */
uint64_t cluster_delay(struct cluster *cluster, unsigned max_ms);

/** cluster_square() - return the square sum of @unit's gradient at @step */
double cluster_square(uint64_t step, unsigned unit);
