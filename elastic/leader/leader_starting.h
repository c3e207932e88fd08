/*
 * Workers of the plan in force, or of the next one, that are still starting. Private to the leader.
 *
 * Before a worker is prepared, it opens its device, reads the training data and takes its memory,
 * and reports its progress. These take time in proportion to the amount of data, so a start times
 * out by a worker's silence and not by its duration: each report of progress restarts the time
 * limit of the plan's start or preparation.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_starting_note() - note new progress of starting workers; called once a decision, before
 * any use */
void leader_starting_note(struct leader_context *context);

/** leader_start_counts_from() - return the later of the publication of the plan in force and the
 * last progress of a starting worker */
uint64_t leader_start_counts_from(const struct leader_context *context);

/** leader_starting_say() - add to the job's text how many workers are starting; nothing if none
 * reports it */
void leader_starting_say(struct leader_context *context);

/** leader_starting_words() - describe one starting worker: "a/0: reads the training data: 1.5 GiB
 * of 18.6 GiB"; NULL: none */
const char *leader_starting_words(const struct leader_context *context, char *text,
                                  size_t size_bytes);
