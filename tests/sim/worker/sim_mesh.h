/*
 * Links between workers, as comm/mesh/mesh.h promises them. Each worker has one mesh per
 * generation. A link is made when both ends open the same generation with the same key. Messages of
 * a link arrive in order. A worker that finds a peer gone, or silent for failure_timeout, fails its
 * whole mesh and sends FAULT to the other peers, so a break spreads. A worker that closes a healthy
 * mesh sends BYE.
 */
#pragma once

#include "base/bytes.h"
#include "elastic/plan/plan.h"
#include "sim/node/sim_network.h"
#include "sim/worker/sim_state.h"

#define SIM_PEERS_MAX (SIM_NODES_MAX > 32 ? 128 : 32)

enum sim_tag {
    SIM_ACTIVATION,
    SIM_GRADIENT,
    SIM_REDUCE,
    SIM_SHADOW, /* index: stage */
    SIM_HOLD,   /* with the real bytes, like the other rounds (sim_tree.h) */
    SIM_COMMIT,
    SIM_CLOSING,
    SIM_CLOSED,
    SIM_STATE,   /* index: unit; all but its moments */
    SIM_MOMENTS, /* index: unit */
    SIM_RELEASE,
    SIM_CLAIMS,
    SIM_VERDICT,
    SIM_HERE,
    SIM_ALL_HERE,
    SIM_FACTS,
    SIM_DIVISION,
    SIM_OFFER, /* of sums of a step in progress */
    SIM_WANTED,
    SIM_SUMS_RELEASE,
    SIM_HEAD,         /* of a shared lane */
    SIM_COPIES_ASKED, /* what a keeper of copies has */
    SIM_COPIES,
    SIM_VOTE,
    SIM_VOTED,
};

/* The content of a message about the model: the fields that its tag needs. */
struct sim_payload {
    uint64_t step;
    uint64_t digest;
    struct sim_unit unit;
};

enum sim_mesh_state { SIM_MESH_OPENING, SIM_MESH_OPEN, SIM_MESH_FAILED };

struct sim_link;
struct sim_message;

struct sim_peer {
    unsigned rank;
    unsigned node, slot; /* node: index */
    struct sim_link *link;
    unsigned end; /* this side's end of the link */
    bool left;
    bool answered;    /* its host answered, while links are made */
    bool joins_later; /* as comm/mesh/mesh.h has it */
    uint64_t heard_ns, backoff_ns;
    struct sim_event *attempt;
    struct sim_mesh *mesh;
};

struct sim_mesh {
    struct sim *sim;
    struct sim_worker *worker;
    uint64_t generation;
    char key[PLAN_KEY_HEX_SIZE];
    unsigned rank, peer_count;
    struct sim_peer peers[SIM_PEERS_MAX];
    enum sim_mesh_state state;
    int result;           /* of opening: 0, -ETIMEDOUT, -ESTALE, -ECONNRESET, -ECANCELED */
    bool patient;         /* as comm/mesh/mesh.h has it */
    uint64_t deadline_ns; /* UINT64_MAX: none, or none yet */
    uint64_t limit_ns;    /* from then on; UINT64_MAX: none */
    uint64_t ticked_ns;
    uint64_t attention_ns; /* as in comm/mesh/failure_detector.h */
    struct sim_event *tick;
    struct sim_message *inbox;
    bool ends;      /* links of a generation that ended within a step, for its last checkpoint */
    uint64_t early; /* the generation for which the mesh was failed; 0: a real failure */
    unsigned lost_ranks[SIM_PEERS_MAX], lost_count;
};

/** sim_mesh_open() - Link the ranks of the worker's plan, with the key and the number of @named
 * @newcomer: the other ranks may still train */
struct sim_mesh *sim_mesh_open(struct sim_worker *worker, const struct plan *named, bool newcomer);
void sim_mesh_fail(struct sim_mesh *mesh, int result);
/** sim_mesh_leave_for() - Fail the mesh because generation @early begins within the step, and tell
 * all peers */
void sim_mesh_leave_for(struct sim_mesh *mesh, uint64_t early);
/** sim_mesh_break_link() - Reset one connection of the mesh; false: it has none */
bool sim_mesh_break_link(struct sim_mesh *mesh, unsigned choice);
/** sim_mesh_has_dead_link() - Return whether the mesh is open with a link to a peer that died
 * before @before_ns */
bool sim_mesh_has_dead_link(const struct sim_mesh *mesh, uint64_t before_ns);
/** sim_mesh_close() - Close the mesh, with BYE when healthy; NULL allowed */
void sim_mesh_close(struct sim_mesh *mesh);
/**
 * sim_mesh_reset() - Reset the links of a killed process: the kernel notifies the reachable peers
 */
void sim_mesh_reset(struct sim_mesh *mesh);
/** sim_mesh_free_links() - Free the links that still have messages in flight, once all workers are
 * dead */
void sim_mesh_free_links(struct sim *sim);
void sim_mesh_send(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, unsigned index,
                   const struct sim_payload *payload);
/** sim_mesh_take() - Return whether the message has arrived; a peer that left without sending it
 * fails the mesh */
bool sim_mesh_take(struct sim_mesh *mesh, unsigned peer, enum sim_tag tag, uint64_t step,
                   unsigned index, struct sim_payload *ret_payload);
/** sim_mesh_has() - Return whether a message has arrived, also on a mesh that has failed since;
 * @mesh NULL: false */
bool sim_mesh_has(const struct sim_mesh *mesh, unsigned peer, enum sim_tag tag, uint64_t step);
/** sim_mesh_send_bytes(), sim_mesh_take_bytes() - the same for messages of the real code: @content
 * is copied; *ret_content is the caller's */
void sim_mesh_send_bytes(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, uint64_t step,
                         const struct bytes *content);
bool sim_mesh_take_bytes(struct sim_mesh *mesh, unsigned peer, enum sim_tag tag, uint64_t step,
                         struct bytes *ret_content);
