/*
 * A leader that died with its node would be replaced only when its lease has run out. Workers
 * notice sooner: when their links to the leader's node break, its firnd is asked over HTTP, and if
 * nobody answers it is deposed. That is safe whatever the truth: a deposed leader's writes fail.
 */
#pragma once

#include "daemon/core/daemon.h"

struct suspicion;

/** suspicion_new() - @daemon is borrowed. Return: 0; -ENOMEM, or what http_client_new() returned */
int suspicion_new(struct daemon *daemon, struct suspicion **ret_suspicion) CHECK_RESULT;
void suspicion_free(struct suspicion *suspicion);
/** suspicion_raise() - links to @node broke; nothing happens unless it leads and does not answer */
void suspicion_raise(struct suspicion *suspicion, const char *node);
