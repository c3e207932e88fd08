/*
 * The worker's side of its socket to firnd: one thread that accepts connections and messages.
 *
 * The newest connection wins, so a restarted firnd takes over; on every connection the last status
 * is sent first. Without a firnd the worker continues: its messages are dropped, except the last
 * status, alarm and unanswered checkpoint, which are sent again to the next firnd. A firnd that
 * does not read, or sends more than the main thread handles, is disconnected: it connects again.
 */
#pragma once

#include "elastic/messages/control.h"

struct control_server;

/** called on the server's thread for every message before it is queued: must not block */
typedef void (*control_observer)(void *context, const struct control_message *message);

/** control_server_start() - listen at @socket_path, replacing an existing file; negative errno,
 * -ENAMETOOLONG */
int control_server_start(const char *socket_path, control_observer observer, void *context,
                         struct control_server **ret_server, struct error *error) CHECK_RESULT;
void control_server_stop(struct control_server *server); /* NULL allowed */

/** control_server_send() - send from any thread; never blocks for long; without a firnd the message
 * is dropped */
void control_server_send(struct control_server *server, const struct control_message *message);

/**
 * control_server_take() - take the oldest message
 * @deadline_ns: monotonic; 0: do not wait
 *
 * Return: 1 with the message, owned by the caller; 0: none by then
 */
int control_server_take(struct control_server *server, uint64_t deadline_ns,
                        struct control_message *ret_message);
