/*
 * Send the last frames of a mesh: FAULT when it has failed, BYE when it is closed.
 *
 * Connections are finished in order (all sent, output shut, input read to its end), because closing
 * a socket with unread input would discard unsent output. TIMEOUT_PARTS_FAREWELL bounds that.
 */
#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "comm/mesh/mesh_state.h"

void farewell_begin(struct mesh *mesh, const char *root_cause)
{
    mesh->phase = MESH_FAILED;
    mesh->farewell_deadline_ns =
        mesh->now_ns + mesh->terms.failure_timeout_ns / TIMEOUT_PARTS_FAREWELL;
    snprintf(mesh->root_cause, sizeof(mesh->root_cause), "%s", root_cause);
}

void farewell_tell(struct mesh *mesh)
{
    struct connection *connection;
    uint32_t length = (uint32_t)MIN(strlen(mesh->root_cause), (size_t)FRAME_SMALL_MAX);
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (connection->state != CONNECTION_UP)
            continue;
        if (connection->output_over ||
            frame_stream_put(&connection->stream, FRAME_FAULT, 0, 0, mesh->root_cause, length) < 0)
            connection_close(connection);
        else
            connection->state = CONNECTION_LEAVING;
    }
}

/* Fail the opening. Peers whose links are up already get a fault, not the loss of a peer. */
void farewell_give_up(struct mesh *mesh, const char *text)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (connection->state == CONNECTION_CONNECTING || connection->state == CONNECTION_GREETING)
            connection_close(connection);
    }
    farewell_begin(mesh, text);
    farewell_tell(mesh);
}

void farewell_leave(struct mesh *mesh)
{
    mesh->phase = MESH_CLOSING;
    mesh->farewell_deadline_ns = mesh->now_ns + mesh->terms.failure_timeout_ns;
}

void farewell_tick(struct mesh *mesh)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (connection->state != CONNECTION_UP || !message_transfer_drained(connection->peer))
            continue;
        if (frame_stream_put(&connection->stream, FRAME_BYE, 0, 0, NULL, 0) < 0) {
            connection_close(connection);
            continue;
        }
        connection->state = CONNECTION_LEAVING;
    }
}
