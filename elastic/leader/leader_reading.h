/*
 * Workers of the plan in force, or of the next one, that still read the job's training data.
 * Private to the leader.
 *
 * A worker reads the data before it is prepared, and reports its progress. Reading takes time in
 * proportion to the size of the data, so a start ends by a reader's silence and not by its
 * duration: each report of progress restarts the plan's time to come up, or the preparation's.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_reading_note() - note new progress of readers; called once a decision, before any use */
void leader_reading_note(struct leader_context *context);

/** leader_start_counts_from() - return the later of the publication of the plan in force and the
 * last progress of a reader */
uint64_t leader_start_counts_from(const struct leader_context *context);

/** leader_reading_say() - add to the job's text how many workers read; nothing if none does */
void leader_reading_say(struct leader_context *context);

/** leader_reading_words() - describe one reader: "a/0: 1.5 GiB of 18.6 GiB"; NULL: none */
const char *leader_reading_words(const struct leader_context *context, char *text,
                                 size_t size_bytes);
