/*
 * Workers of the plan in force, or of the next one, that still read the job's training data.
 * Private to the leader.
 *
 * A worker reads before it is prepared, which takes as long as the data is large, and says how far
 * it is. Its silence ends a start, not the time: each word of it begins the plan's time to come up
 * anew, or that of the preparation.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_reading_note() - once a decision, before any other: has a reader said something new? */
void leader_reading_note(struct leader_context *context);

/** leader_start_counts_from() - the publication of the plan in force, or the last word of a reader
 */
uint64_t leader_start_counts_from(const struct leader_context *context);

/** leader_reading_say() - which workers read, behind what was said; nothing if none does */
void leader_reading_say(struct leader_context *context);

/** leader_reading_words() - of one that reads: "a/0: 1.5 GiB of 18.6 GiB"; NULL: none does */
const char *leader_reading_words(const struct leader_context *context, char *text,
                                 size_t size_bytes);
