/*
 * The worker's side of its socket to firnd: one thread that takes connections and messages.
 *
 * The newest connection wins, so a restarted firnd takes over; on every connection the last status
 * is told first. Without a firnd the worker goes on: what it has to say is dropped, except the last
 * status, alarm and unanswered checkpoint, which are said again to the next firnd. A firnd that
 * does not read, or says more than the main thread comes to look at, is hung up on: it connects
 * again.
 */
#pragma once

#include "elastic/messages/control.h"

struct control_server;

/** called on the server's thread for every message before it is queued: must not block */
typedef void (*control_observer)(void *context, const struct control_message *message);

/** control_server_start() - listen at @socket_path, in the place of whatever was there; errno's
 * codes, -ENAMETOOLONG */
int control_server_start(const char *socket_path, control_observer observer, void *context,
                         struct control_server **ret_server, struct error *error) CHECK_RESULT;
void control_server_stop(struct control_server *server); /* NULL allowed */

/** control_server_send() - from any thread; never blocks for long, drops what no firnd is there to
 * read */
void control_server_send(struct control_server *server, const struct control_message *message);

/**
 * control_server_take() - the oldest message that came
 * @deadline_ns: monotonic; 0: do not wait
 * Return: 1 with the message (the caller's), 0 none by then
 */
int control_server_take(struct control_server *server, uint64_t deadline_ns,
                        struct control_message *ret_message);
