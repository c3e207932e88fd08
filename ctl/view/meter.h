/* Show the progress of a long read or copy: a bar on standard error, if that is a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct meter {
    const char *counted; /* "steps"; NULL: bytes */
    bool shown;
    uint64_t begun_ns, said_ns, total;
};

struct meter meter_begin(void);
/** meter_progress() - draw the bar, or erase it when all is done; @context: the meter */
void meter_progress(void *context, uint64_t done, uint64_t total);
