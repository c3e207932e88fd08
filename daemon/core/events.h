/*
 * A job's events, for operators: one JSON line per event in <job folder>/events.jsonl, and one log
 * line with fields. Each node writes its own events; firnctl merges the nodes' lines by time.
 */
#pragma once

#include <stdint.h>

struct event_facts {
    const char *job, *node;
    uint64_t generation, step; /* 0: unknown */
    double pause_seconds;      /* negative: none */
};

/** events_append() - append an event, best effort: it is in the log even if the file cannot be
 * written */
void events_append(const char *job_dir, const struct event_facts *facts, const char *kind,
                   const char *text);
