/*
 * Ask other nodes of the cluster over HTTP whether they reach etcd.
 *
 * The list of nodes is read from etcd at intervals that grow with the number of nodes, and is kept
 * for times when etcd does not answer. Each round asks a few nodes, the next round others.
 * Nodes that are no longer registered stay in the list while there is room, also across a restart
 * of firnd (daemon/jobs/neighbours_file.h). They fill rounds when there are too few registered
 * nodes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct daemon;

#define NEIGHBOURS_PER_ROUND 4

struct neighbours;

/** neighbours_new() - @told is called when a round is over; it may call anything but
 * neighbours_free() */
int neighbours_new(struct daemon *daemon, void (*told)(void *context), void *context,
                   struct neighbours **ret_neighbours) CHECK_RESULT;
void neighbours_free(struct neighbours *neighbours);

/** neighbours_refresh() - read the list from etcd if that is due. Return: the time of the next
 * refresh, monotonic */
uint64_t neighbours_refresh(struct neighbours *neighbours);
/** neighbours_ask() - start a round; no effect during a round or without neighbours */
void neighbours_ask(struct neighbours *neighbours);
/** neighbours_forget() - drop the answers, because they are out of date */
void neighbours_forget(struct neighbours *neighbours);

/** neighbours_known() - return whether the list has been read once; false: the number of nodes
 * is unknown */
bool neighbours_known(const struct neighbours *neighbours);
/** neighbours_count() - return the number of nodes that were registered at the last reading */
unsigned neighbours_count(const struct neighbours *neighbours);
/** neighbours_answers() - count the nodes that reach etcd, and the nodes that do not, in the
 * last round */
void neighbours_answers(const struct neighbours *neighbours, unsigned *ret_reaching,
                        unsigned *ret_away);
