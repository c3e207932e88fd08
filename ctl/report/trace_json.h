/*
 * Write spans and events in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open
 * ("Trace Event Format", Google, 2016).
 *
 *     process    a node
 *     thread     a worker of the node, and a second one for the checkpoint that it writes meanwhile
 *     "X"        a span: `ts` and `dur` in microseconds since `otherData.origin_unix_ns`
 *     "i"        an event of the job
 */
#pragma once

#include "ctl/cluster/event_list.h"
#include "ctl/cluster/trace_set.h"

/** trace_json_append() - append one JSON object and a newline; events outside the spans' time are
 * left out. Return: 0 or -ENOMEM */
int trace_json_append(const char *job, const struct trace_set *set, const struct event_list *events,
                      struct bytes *into) CHECK_RESULT;
