/*
 * Depose a dead leader early. Without this, a leader that died with its node is replaced only when
 * its lease expires. Workers notice sooner: when their links to the leader's node break, its firnd
 * is asked over HTTP, and if there is no answer the leader is deposed. A false suspicion is safe: a
 * deposed leader's writes fail.
 */
#pragma once

#include "base/compiler.h"

struct daemon;
struct suspicion;

/** suspicion_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of http_client_new() */
int suspicion_new(struct daemon *daemon, struct suspicion **ret_suspicion) CHECK_RESULT;
void suspicion_free(struct suspicion *suspicion);
/** suspicion_raise() - report that links to @node broke; no effect unless @node leads and does
 * not answer */
void suspicion_raise(struct suspicion *suspicion, const char *node);
