/*
 * Machines that come and go on a spot market, read from published traces.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

struct spot_event {
    uint64_t at_ns;
    unsigned node; /* counted from 0 in order of appearance */
    int change;    /* +1: it joins; -1: it leaves, at once and without notice */
};

struct spot_trace {
    struct spot_event *events; /* in order of time */
    size_t event_count;
    unsigned node_count, most; /* number of nodes; of nodes at one time */
    uint64_t end_ns;
};

/**
 * spot_trace_read() - Read a trace by the file's name: .csv has `milliseconds,add or remove,node`,
 * .json {"metadata": {"gap_seconds": g}, "data": [available nodes every g seconds]}
 * Return: 0; -errno of reading; -EINVAL with the line; -ENOMEM.
 */
int spot_trace_read(const char *path, struct spot_trace *ret_trace,
                    struct error *error) CHECK_RESULT;
void spot_trace_done(struct spot_trace *trace);
