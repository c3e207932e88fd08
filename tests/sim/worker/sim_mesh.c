#include "sim/worker/sim_mesh.h"
#include "base/timeouts.h"
#include "protocol/generation_entry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_worker.h"

#define BACKOFF_MIN_NS (10 * NS_PER_MS)
#define BACKOFF_MAX_NS (200 * NS_PER_MS)
#define OPEN_NS        (TIMEOUTS_LINKS_OPEN * SIM_FAILURE_TIMEOUT)
#define HOLD_BACK_NS   (50 * NS_PER_MS) /* until a cut link is tried again */

enum packet_type { PACKET_MESSAGE, PACKET_FAULT, PACKET_BYE, PACKET_RESET };

struct sim_message {
    struct sim_message *next;
    enum packet_type type;
    uint64_t due_ns, generation;
    unsigned from_rank, index;
    enum sim_tag tag;
    struct sim_payload payload;
    struct bytes content; /* a message of the real code, in place of a payload */
};

/* A link with two directions; queues[e] holds the messages that end e has yet to receive. */
struct sim_link {
    struct sim *sim;
    struct sim_worker *workers[2];
    struct sim_mesh *ends[2]; /* NULL: closed on this side */
    struct sim_message *queues[2], **tails[2];
    struct sim_event *pumps[2];
    bool busy; /* delivering a message, which may close an end: the link must stay */
};

static void message_free(struct sim_message *message)
{
    bytes_done(&message->content);
    free(message);
}

static void pump(struct sim_link *link, unsigned end);

static void pump_first(void *context)
{
    pump(context, 0);
}

static void pump_second(void *context)
{
    pump(context, 1);
}

static void link_free_if_over(struct sim_link *link)
{
    if (link->busy || link->ends[0] || link->ends[1] || link->queues[0] || link->queues[1])
        return;
    sim_cancel(link->sim, link->pumps[0]);
    sim_cancel(link->sim, link->pumps[1]);
    free(link);
}

static void pump_at(struct sim_link *link, unsigned end, uint64_t at_ns)
{
    if (!link->pumps[end])
        link->pumps[end] = sim_post(link->sim, at_ns, &link->workers[end]->pause,
                                    end == 0 ? pump_first : pump_second, link);
}

static void enqueue(struct sim_link *link, unsigned to, struct sim_message *message)
{
    message->due_ns = sim_transit(link->sim, link->workers[0]->node, link->workers[1]->node);
    message->next = NULL;
    *link->tails[to] = message;
    link->tails[to] = &message->next;
    pump_at(link, to, message->due_ns);
}

static void send_packet_about(struct sim_peer *peer, enum packet_type type, uint64_t early)
{
    struct sim_message *packet = sim_allocate(1, sizeof(*packet));
    packet->type = type;
    packet->generation = early;
    enqueue(peer->link, !peer->end, packet);
}

static void send_packet(struct sim_peer *peer, enum packet_type type)
{
    send_packet_about(peer, type, 0);
}

static struct sim_peer *find_peer(struct sim_mesh *mesh, unsigned rank)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (mesh->peers[i].rank == rank)
            return &mesh->peers[i];
    return NULL;
}

static struct sim_peer *peer_of_link(struct sim_mesh *mesh, const struct sim_link *link)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (mesh->peers[i].link == link)
            return &mesh->peers[i];
    return NULL;
}

static void detach(struct sim_peer *peer)
{
    struct sim_link *link = peer->link;
    if (!link)
        return;
    peer->link = NULL;
    link->ends[peer->end] = NULL;
    link_free_if_over(link);
}

/* ---- failing and closing ---- */

static bool is_unreached(const struct sim_mesh *mesh, const struct sim_peer *peer,
                         unsigned timeouts)
{
    return mesh->rank > peer->rank && !peer->link && !peer->answered &&
           mesh->attention_ns >= timeouts * SIM_FAILURE_TIMEOUT;
}

static bool somebody_is_unreached(const struct sim_mesh *mesh)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (is_unreached(mesh, &mesh->peers[i], TIMEOUTS_UNREACHED))
            return true;
    return false;
}

static void list_unreached(const struct sim_mesh *mesh)
{
    struct mesh_unreached *list = &mesh->worker->unreached;
    for (unsigned i = 0; i < mesh->peer_count && list->count < MESH_UNREACHED_MAX; i++)
        if (is_unreached(mesh, &mesh->peers[i], TIMEOUTS_UNREACHED - 1))
            list->ranks[list->count++] = mesh->peers[i].rank;
}

static void leave(struct sim_mesh *mesh, enum packet_type farewell)
{
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        struct sim_peer *peer = &mesh->peers[i];
        sim_cancel(mesh->sim, peer->attempt);
        peer->attempt = NULL;
        if (peer->link && !peer->left)
            send_packet_about(peer, farewell, mesh->early);
        detach(peer);
    }
    sim_cancel(mesh->sim, mesh->tick);
    mesh->tick = NULL;
}

static void drop_inbox(struct sim_mesh *mesh)
{
    while (mesh->inbox) {
        struct sim_message *message = mesh->inbox;
        mesh->inbox = message->next;
        message_free(message);
    }
}

void sim_mesh_fail(struct sim_mesh *mesh, int result)
{
    if (mesh->state == SIM_MESH_FAILED)
        return;
    if (mesh->state == SIM_MESH_OPENING)
        list_unreached(mesh);
    mesh->state = SIM_MESH_FAILED;
    mesh->result = result;
    leave(mesh, PACKET_FAULT);
    drop_inbox(mesh);
    sim_division_interrupt(mesh->worker);
    sim_worker_wake(mesh->worker);
}

void sim_mesh_leave_for(struct sim_mesh *mesh, uint64_t early)
{
    mesh->early = early;
    sim_mesh_fail(mesh, -ECONNRESET);
}

static void lose(struct sim_mesh *mesh, struct sim_peer *peer)
{
    mesh->lost_ranks[mesh->lost_count++] = peer->rank;
    if (peer->link)
        send_packet(peer, PACKET_RESET); /* a live peer finds the connection closed */
    detach(peer);
    sim_mesh_fail(mesh, -ECONNRESET);
}

void sim_mesh_close(struct sim_mesh *mesh)
{
    if (!mesh)
        return;
    leave(mesh, PACKET_BYE);
    drop_inbox(mesh);
    free(mesh);
}

void sim_mesh_reset(struct sim_mesh *mesh)
{
    if (!mesh)
        return;
    leave(mesh, PACKET_RESET);
    drop_inbox(mesh);
    free(mesh);
}

static void connect_later(struct sim_peer *peer);

/* A link that breaks before all links are up is made again. */
static void forget_link(struct sim_peer *peer)
{
    if (peer->link)
        send_packet(peer, PACKET_RESET);
    detach(peer);
    connect_later(peer);
}

static void lose_link(struct sim_peer *peer)
{
    if (peer->mesh->state == SIM_MESH_OPENING)
        forget_link(peer);
    else if (!peer->left)
        lose(peer->mesh, peer);
}

bool sim_mesh_break_link(struct sim_mesh *mesh, unsigned choice)
{
    if (mesh->peer_count == 0)
        return false;
    struct sim_peer *peer = &mesh->peers[choice % mesh->peer_count];
    if (!peer->link || mesh->state == SIM_MESH_FAILED)
        return false;
    lose_link(peer); /* a reset notifies the other end, as it would notify this end */
    return true;
}

/* ---- messages ---- */

/* Take the content of @message. */
static void put_in_inbox(struct sim_mesh *mesh, struct sim_message *message)
{
    sim_check_frame(mesh->sim, mesh->worker, message->generation);
    struct sim_message **end = &mesh->inbox;
    while (*end)
        end = &(*end)->next;
    *end = sim_allocate(1, sizeof(**end));
    **end = *message;
    message->content = (struct bytes){0};
    (*end)->next = NULL;
    sim_worker_wake(mesh->worker);
}

static void deliver(struct sim_link *link, unsigned end, struct sim_message *message)
{
    struct sim_mesh *mesh = link->ends[end];
    if (!mesh) { /* closed here: drop the messages in flight */
        struct sim_worker *worker = link->workers[end];
        bool strayed = link->sim->bug == BUG_OLD_FRAMES && worker->alive && worker->mesh &&
                       worker->mesh->state == SIM_MESH_OPEN && message->type == PACKET_MESSAGE;
        if (strayed)
            put_in_inbox(worker->mesh, message);
        return;
    }
    struct sim_peer *peer = peer_of_link(mesh, link);
    switch (message->type) {
    case PACKET_MESSAGE:
        put_in_inbox(mesh, message);
        break;
    case PACKET_FAULT:
        if (mesh->state == SIM_MESH_OPEN || mesh->state == SIM_MESH_OPENING) {
            detach(peer);
            mesh->early = message->generation;
            sim_mesh_fail(mesh, -ECONNRESET);
        }
        break;
    case PACKET_BYE:
        peer->left = true;
        sim_worker_wake(mesh->worker);
        break;
    case PACKET_RESET:
        lose_link(peer);
        break;
    }
}

static void pump(struct sim_link *link, unsigned end)
{
    struct sim *sim = link->sim;
    link->pumps[end] = NULL;
    if (link->ends[end] && link->queues[end] &&
        !sim_reachable(sim, link->workers[0]->node, link->workers[1]->node)) {
        pump_at(link, end, sim->now_ns + HOLD_BACK_NS);
        return;
    }
    link->busy = true;
    while (link->queues[end] && link->queues[end]->due_ns <= sim->now_ns) {
        struct sim_message *message = link->queues[end];
        link->queues[end] = message->next;
        if (!message->next)
            link->tails[end] = &link->queues[end];
        deliver(link, end, message);
        message_free(message);
    }
    link->busy = false;
    if (link->queues[end])
        pump_at(link, end, link->queues[end]->due_ns);
    else
        link_free_if_over(link);
}

static void link_free(struct sim_link *link)
{
    for (unsigned end = 0; end < 2; end++)
        while (link->queues[end]) {
            struct sim_message *message = link->queues[end];
            link->queues[end] = message->next;
            message_free(message);
        }
    link_free_if_over(link);
}

/* A link with messages in flight has an event that would deliver the next one. */
void sim_mesh_free_links(struct sim *sim)
{
    for (unsigned end = 0; end < 2; end++) {
        struct sim_link *link;
        while ((link = sim_cancel_one(sim, end == 0 ? pump_first : pump_second))) {
            link->pumps[end] = NULL;
            link_free(link);
        }
    }
}

/* Return the link with @rank, if a message can be sent over it. */
static struct sim_peer *find_open(struct sim_mesh *mesh, unsigned rank)
{
    struct sim_peer *peer = find_peer(mesh, rank);
    if (!peer) {
        sim_fail(mesh->sim, "rank %u has no link with rank %u in generation %llu", mesh->rank, rank,
                 (unsigned long long)mesh->generation);
        return NULL;
    }
    return peer->link && mesh->state == SIM_MESH_OPEN && !peer->left ? peer : NULL;
}

static void send_message(struct sim_mesh *mesh, struct sim_peer *peer, enum sim_tag tag,
                         unsigned index, const struct sim_payload *payload,
                         const struct bytes *content)
{
    struct sim_message *message = sim_allocate(1, sizeof(*message));
    message->type = PACKET_MESSAGE;
    message->generation = mesh->generation;
    message->from_rank = mesh->rank;
    message->tag = tag;
    message->index = index;
    message->payload = *payload;
    if (content && bytes_append(&message->content, content->data, content->size_bytes))
        abort();
    enqueue(peer->link, !peer->end, message);
}

void sim_mesh_send(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, unsigned index,
                   const struct sim_payload *payload)
{
    struct sim_peer *peer = find_open(mesh, rank);
    if (peer)
        send_message(mesh, peer, tag, index, payload, NULL);
}

void sim_mesh_send_bytes(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, uint64_t step,
                         const struct bytes *content)
{
    const struct sim_payload payload = {.step = step};
    struct sim_peer *peer = find_open(mesh, rank);
    if (peer)
        send_message(mesh, peer, tag, 0, &payload, content);
}

/* Take a message out of the inbox; NULL: it has not arrived. A peer that left without sending it
 * fails the mesh. */
static struct sim_message *take_message(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag,
                                        uint64_t step, unsigned index)
{
    if (mesh->state != SIM_MESH_OPEN)
        return NULL;
    for (struct sim_message **link = &mesh->inbox; *link; link = &(*link)->next) {
        struct sim_message *message = *link;
        if (message->from_rank != rank || message->tag != tag || message->index != index ||
            message->payload.step != step)
            continue;
        *link = message->next;
        return message;
    }
    struct sim_peer *peer = find_peer(mesh, rank);
    if (peer && peer->left)
        lose(mesh, peer);
    return NULL;
}

bool sim_mesh_has(const struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, uint64_t step)
{
    for (const struct sim_message *message = mesh ? mesh->inbox : NULL; message;
         message = message->next)
        if (message->from_rank == rank && message->tag == tag && message->payload.step == step)
            return true;
    return false;
}

bool sim_mesh_take(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, uint64_t step,
                   unsigned index, struct sim_payload *ret_payload)
{
    struct sim_message *message = take_message(mesh, rank, tag, step, index);
    if (!message)
        return false;
    *ret_payload = message->payload;
    message_free(message);
    return true;
}

bool sim_mesh_take_bytes(struct sim_mesh *mesh, unsigned rank, enum sim_tag tag, uint64_t step,
                         struct bytes *ret_content)
{
    struct sim_message *message = take_message(mesh, rank, tag, step, 0);
    if (!message)
        return false;
    *ret_content = message->content;
    message->content = (struct bytes){0};
    message_free(message);
    return true;
}

/* ---- opening ---- */

static bool all_up(const struct sim_mesh *mesh)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (!mesh->peers[i].link)
            return false;
    return true;
}

static void check_open(struct sim_mesh *mesh)
{
    if (mesh->state != SIM_MESH_OPENING || !all_up(mesh))
        return;
    mesh->state = SIM_MESH_OPEN;
    mesh->worker->share.turn_ns = 0;
    sim_worker_wake(mesh->worker);
}

/* The limit begins when all peers that join later are linked. */
static void begin_limit(struct sim_mesh *mesh)
{
    mesh->deadline_ns = UINT64_MAX;
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (mesh->peers[i].joins_later && !mesh->peers[i].link)
            return;
    if (mesh->limit_ns != UINT64_MAX)
        mesh->deadline_ns = mesh->sim->now_ns + mesh->limit_ns;
}

static void attach(struct sim_peer *peer, struct sim_link *link, unsigned end)
{
    if (peer->link) /* the newest connection wins */
        detach(peer);
    peer->link = link;
    peer->end = end;
    peer->left = false;
    peer->heard_ns = link->sim->now_ns;
    if (peer->mesh->deadline_ns == UINT64_MAX)
        begin_limit(peer->mesh);
    link->ends[end] = peer->mesh;
    link->workers[end] = peer->mesh->worker;
}

static void make_link(struct sim_peer *from, struct sim_peer *to)
{
    struct sim_link *link = sim_allocate(1, sizeof(*link));
    sim_check_frame(from->mesh->sim, to->mesh->worker, from->mesh->generation);
    link->sim = from->mesh->sim;
    link->tails[0] = &link->queues[0];
    link->tails[1] = &link->queues[1];
    attach(from, link, 0);
    attach(to, link, 1);
    check_open(to->mesh);
    check_open(from->mesh);
}

static void attempt(void *context)
{
    struct sim_peer *peer = context;
    struct sim_mesh *mesh = peer->mesh;
    struct sim *sim = mesh->sim;
    peer->attempt = NULL;
    struct sim_worker *target = sim_worker_at(sim, peer->node, peer->slot);
    peer->answered = peer->answered || sim_reachable(sim, mesh->worker->node, peer->node);
    struct sim_mesh *there = target && target->pause.until_ns <= sim->now_ns &&
                                     sim_reachable(sim, mesh->worker->node, peer->node)
                                 ? target->mesh
                                 : NULL;
    if (sim->bug == BUG_LATE_WORKER && there && there->generation > mesh->generation &&
        there->state != SIM_MESH_FAILED && find_peer(there, mesh->rank)) {
        make_link(peer, find_peer(there, mesh->rank));
        return;
    }
    if (there && there->state == SIM_MESH_OPENING) {
        struct sim_peer *me = find_peer(there, mesh->rank);
        bool same = there->generation == mesh->generation && strcmp(there->key, mesh->key) == 0 &&
                    me && there->rank == peer->rank;
        if (same) {
            make_link(peer, me);
            return;
        }
        if (there->generation > mesh->generation) {
            sim_mesh_fail(mesh, -ESTALE);
            return;
        }
    }
    connect_later(peer);
}

static void connect_later(struct sim_peer *peer)
{
    struct sim_mesh *mesh = peer->mesh;
    if (mesh->state != SIM_MESH_OPENING || mesh->rank < peer->rank || peer->attempt)
        return;
    peer->backoff_ns =
        peer->backoff_ns == 0 ? BACKOFF_MIN_NS : MIN(2 * peer->backoff_ns, BACKOFF_MAX_NS);
    peer->attempt = sim_post(mesh->sim,
                             sim_transit(mesh->sim, mesh->worker->node, peer->node) +
                                 peer->backoff_ns - BACKOFF_MIN_NS,
                             &mesh->worker->pause, attempt, peer);
}

/* ---- silence ---- */

static bool is_heard(const struct sim_mesh *mesh, const struct sim_peer *peer)
{
    const struct sim_worker *there = peer->link->workers[!peer->end];
    return sim_reachable(mesh->sim, mesh->worker->node, there->node) && there->alive &&
           there->pause.until_ns <= mesh->sim->now_ns;
}

bool sim_mesh_has_dead_link(const struct sim_mesh *mesh, uint64_t before_ns)
{
    for (unsigned i = 0; mesh->state == SIM_MESH_OPEN && i < mesh->peer_count; i++) {
        const struct sim_peer *peer = &mesh->peers[i];
        const struct sim_worker *there =
            peer->link && !peer->left ? peer->link->workers[!peer->end] : NULL;
        if (there && !there->alive && there->died_ns < before_ns)
            return true;
    }
    return false;
}

static void tick(void *context)
{
    struct sim_mesh *mesh = context;
    struct sim *sim = mesh->sim;
    /* A worker that was stopped itself cannot know how long its peers were silent. */
    bool attentive = sim->now_ns - mesh->ticked_ns < SIM_FAILURE_TIMEOUT / 2;
    mesh->attention_ns += attentive ? sim->now_ns - mesh->ticked_ns : 0;
    mesh->tick = NULL;
    mesh->ticked_ns = sim->now_ns;
    if (mesh->state == SIM_MESH_OPENING &&
        (sim->now_ns >= mesh->deadline_ns || (!mesh->patient && somebody_is_unreached(mesh)))) {
        sim_mesh_fail(mesh, -ETIMEDOUT);
        return;
    }
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        struct sim_peer *peer = &mesh->peers[i];
        if (!peer->link || peer->left)
            continue;
        if (!attentive || is_heard(mesh, peer)) {
            peer->heard_ns = sim->now_ns;
        } else if (sim->now_ns - peer->heard_ns >= SIM_FAILURE_TIMEOUT &&
                   sim->bug != BUG_DEAF_LINKS) {
            if (mesh->state == SIM_MESH_OPENING) {
                forget_link(peer);
                continue;
            }
            sim_trace(sim, "  %s misses rank %u in generation %llu", sim_worker_name(mesh->worker),
                      peer->rank, (unsigned long long)mesh->generation);
            lose(mesh, peer);
            return;
        }
    }
    mesh->tick = sim_post(
        sim,
        sim_soon(sim, SIM_FAILURE_TIMEOUT / NS_PER_US / 5, SIM_FAILURE_TIMEOUT / NS_PER_US / 4),
        &mesh->worker->pause, tick, mesh);
}

static uint64_t limit_of(const struct sim_worker *worker, const struct plan *named)
{
    uint64_t limit_ns =
        generation_entry_links_ns(worker->plan, named, OPEN_NS, worker->share.turn_ns);
    if (worker->sim->bug == BUG_HASTY_PEER)
        limit_ns = OPEN_NS;
    return limit_ns == GENERATION_ENTRY_NO_LIMIT ? UINT64_MAX : limit_ns;
}

struct sim_mesh *sim_mesh_open(struct sim_worker *worker, const struct plan *named, bool newcomer)
{
    struct sim *sim = worker->sim;
    const struct plan *plan = worker->plan;
    struct sim_mesh *mesh = sim_allocate(1, sizeof(*mesh));
    AUTO_FREE unsigned *ranks =
        sim_allocate(plan->layout.worker_count + plan->layout.donor_count + 1, sizeof(*ranks));
    mesh->sim = sim;
    mesh->worker = worker;
    mesh->generation = named->generation;
    memcpy(mesh->key, named->links.key, sizeof(mesh->key));
    mesh->rank = worker->rank;
    mesh->peer_count = plan_peers(plan, worker->rank, named == plan, ranks);
    assert(mesh->peer_count <= SIM_PEERS_MAX);
    mesh->patient = named->links.patient;
    mesh->limit_ns = limit_of(worker, named);
    mesh->ticked_ns = sim->now_ns;
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        const struct plan_worker *at = &plan->layout.workers[ranks[i]];
        mesh->peers[i] = (struct sim_peer){.rank = ranks[i],
                                           .node = sim_node_index(sim, at->node),
                                           .slot = at->slot,
                                           .joins_later = newcomer && at->instance != 0 &&
                                                          sim->bug != BUG_HASTY_NEWCOMER,
                                           .mesh = mesh};
    }
    begin_limit(mesh);
    worker->mesh = mesh;
    for (unsigned i = 0; i < mesh->peer_count; i++)
        connect_later(&mesh->peers[i]);
    check_open(mesh);
    mesh->tick = sim_post(sim, sim->now_ns, &worker->pause, tick, mesh);
    return mesh;
}
