/*
 * A mesh fails, or a peer leaves it.
 *
 * A fault is found once (a link that closed, silence, a frame that is not allowed, mesh_abort, or a
 * FAULT frame). Then every request is completed with -ECONNRESET, at once and before anything is
 * sent; every other peer gets a FAULT with the root cause, behind a segment that may be partly
 * sent, and does the same.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "comm/mesh/mesh_state.h"

static unsigned count_requests(const struct mesh_requests *requests)
{
    unsigned count = 0;
    const struct mesh_request *request;
    TAILQ_FOREACH(request, requests, entry)
    count++;
    return count;
}

static unsigned count_sends(const struct peer *peer)
{
    unsigned count = count_requests(&peer->sends) + count_requests(&peer->bulk_sends) +
                     count_requests(&peer->offers);
    return peer->connection ? count + frame_stream_count(&peer->connection->stream) : count;
}

/* Complete every request and wake every waiting thread; with the lock. */
static void complete_all(struct mesh *mesh)
{
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        inbox_fail(&mesh->peers[i].inbox, -ECONNRESET);
        message_transfer_drop_sends(&mesh->peers[i], -ECONNRESET);
    }
    pthread_cond_broadcast(&mesh->changed);
}

static void fail_as(struct mesh *mesh, struct peer *const *lost, unsigned lost_count,
                    const char *text, const char *root_cause)
{
    if (mesh->phase == MESH_OPENING) {
        rendezvous_end(mesh, -ECONNRESET, text);
        return;
    }
    if (mesh->phase != MESH_OPEN)
        return;
    farewell_begin(mesh, root_cause);
    pthread_mutex_lock(&mesh->lock);
    mesh->failed = true;
    mesh->fault.failed = true;
    for (unsigned i = 0; i < lost_count; i++)
        mesh->fault.lost_ranks[mesh->fault.lost_count++] = lost[i]->options.rank;
    snprintf(mesh->fault.text, sizeof(mesh->fault.text), "%s", text);
    memcpy(mesh->fault.root_cause, mesh->root_cause, sizeof(mesh->fault.root_cause));
    complete_all(mesh);
    pthread_mutex_unlock(&mesh->lock);
    for (unsigned i = 0; i < lost_count; i++)
        if (lost[i]->connection)
            connection_close(lost[i]->connection);
    farewell_tell(mesh);
}

void mesh_fail(struct mesh *mesh, struct peer *const *lost, unsigned lost_count, const char *text)
{
    fail_as(mesh, lost, lost_count, text, text);
}

/* Fail this mesh because a peer's mesh has failed, and pass the peer's root cause on.
 */
void mesh_fail_told(struct connection *connection, const uint8_t *text, size_t text_size)
{
    char root_cause[sizeof(connection->mesh->root_cause)];
    char label[MESH_LABEL_SIZE];
    char told[sizeof(root_cause) + MESH_LABEL_SIZE + 16];
    size_t size = MIN(text_size, sizeof(root_cause) - 1);
    for (size_t i = 0; i < size; i++)
        root_cause[i] = text[i] >= ' ' && text[i] <= '~' ? (char)text[i] : '?';
    root_cause[size] = '\0';
    peer_label(connection->peer, label);
    snprintf(told, sizeof(told), "told by %s: %s", label, root_cause);
    if (connection->mesh->phase == MESH_CLOSING)
        connection_close(connection);
    else
        fail_as(connection->mesh, NULL, 0, told, root_cause);
}

static const char *lost_text(int code)
{
    switch (code) {
    case -ESHUTDOWN:
    case -ECONNRESET:
    case -EPIPE:
        return "closed the link";
    case -ETIMEDOUT:
        return "acknowledges nothing any more";
    case -EPROTO:
        return "broke the protocol";
    case -EBADMSG:
        return "sent data that was changed on the way (a network card, a switch or memory in "
               "between changes bytes, or somebody does)";
    default:
        return strerror(-code);
    }
}

static void fail_lost(struct peer *peer, const char *what)
{
    struct mesh *mesh = peer->mesh;
    char label[MESH_LABEL_SIZE], text[sizeof(mesh->fault.text)];
    peer_label(peer, label);
    pthread_mutex_lock(&mesh->lock);
    unsigned receives = inbox_waiting(&peer->inbox), sends = count_sends(peer);
    pthread_mutex_unlock(&mesh->lock);
    snprintf(text, sizeof(text), "%s %s while %u receives and %u sends were waiting for it", label,
             what, receives, sends);
    mesh_fail(mesh, &peer, 1, text);
}

void mesh_lose(struct connection *connection, int code)
{
    struct mesh *mesh = connection->mesh;
    if (code == -ECANCELED) /* an event has changed the connection's state: stop parsing */
        return;
    switch (connection->state) {
    case CONNECTION_CONNECTING:
    case CONNECTION_GREETING:
        if (mesh->phase == MESH_OPENING)
            rendezvous_lost(connection, code);
        else
            connection_close(connection);
        break;
    case CONNECTION_UP:
        if (mesh->phase == MESH_OPENING)
            rendezvous_lost(connection, code);
        else if (mesh->phase == MESH_OPEN)
            fail_lost(connection->peer, lost_text(code));
        else
            connection_close(connection);
        break;
    case CONNECTION_LEAVING:
        connection->input_over = true;
        if (code != -ESHUTDOWN || connection->output_over)
            connection_close(connection);
        break;
    case CONNECTION_CLOSED:
        break;
    }
}

/* Process a peer's BYE: drop its sends, and fail receives whose message will not come. */
void mesh_depart(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    struct peer *peer = connection->peer;
    connection->state = CONNECTION_LEAVING;
    pthread_mutex_lock(&mesh->lock);
    peer->left = true;
    unsigned receives = inbox_waiting(&peer->inbox);
    if (receives == 0)
        message_transfer_drop_sends(peer, 0);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    if (receives > 0)
        fail_lost(peer, "left");
}
