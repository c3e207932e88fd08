/*
 * Other nodes of the cluster, and what they say when they are asked whether they reach etcd.
 *
 * Who they are is read from etcd now and then, less often the more there are, and remembered for
 * when etcd does not answer. A round asks a few of them over HTTP, the next round others. Those who
 * were registered earlier and are not any more stay remembered while there is room, also by the
 * next firnd (daemon/jobs/neighbours_file.h), and fill rounds for which there are not enough
 * others.
 */
#pragma once

#include "daemon/core/daemon.h"

#define NEIGHBOURS_PER_ROUND 4

struct neighbours;

/** neighbours_new() - @told: when a round is over; it may call anything but neighbours_free() */
int neighbours_new(struct daemon *daemon, void (*told)(void *context), void *context,
                   struct neighbours **ret_neighbours) CHECK_RESULT;
void neighbours_free(struct neighbours *neighbours);

/** neighbours_refresh() - look who they are, if that was long ago. Return: when it is due again,
 * monotonic */
uint64_t neighbours_refresh(struct neighbours *neighbours);
/** neighbours_ask() - begin a round; nothing while one is under way, or without neighbours */
void neighbours_ask(struct neighbours *neighbours);
/** neighbours_forget() - what they answered: it was about another time */
void neighbours_forget(struct neighbours *neighbours);

/** neighbours_known() - it has been read once who they are; false: there may be any number */
bool neighbours_known(const struct neighbours *neighbours);
/** neighbours_count() - who were registered when it was read last */
unsigned neighbours_count(const struct neighbours *neighbours);
/** neighbours_answers() - of the last round: how many reach etcd, and how many do not */
void neighbours_answers(const struct neighbours *neighbours, unsigned *ret_reaching,
                        unsigned *ret_away);
