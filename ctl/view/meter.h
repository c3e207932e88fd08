/* How far a long read or copy has come: a bar on standard error, where that is a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct meter {
    const char *counted; /* "steps"; NULL: bytes */
    bool shown;
    uint64_t begun_ns, said_ns, total;
};

struct meter meter_begin(void);
/** meter_progress() - @context: the meter; erases the bar when all is done */
void meter_progress(void *context, uint64_t done, uint64_t total);
