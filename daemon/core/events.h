/*
 * What happened to a job, for people: one JSON line an event in <job folder>/events.jsonl and one
 * log line with fields. Written by the node where it happened; firnctl merges the nodes' lines by
 * time.
 */
#pragma once

#include <stdint.h>

struct event_facts {
    const char *job, *node;
    uint64_t generation, step; /* 0: not known */
    double pause_seconds;      /* negative: none */
};

/** events_append() - best effort: an event that cannot be written is in the log all the same */
void events_append(const char *job_dir, const struct event_facts *facts, const char *kind,
                   const char *text);
