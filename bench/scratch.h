/*
 * A folder of a benchmark's own that is gone afterwards, however the benchmark ends: a small
 * process beside it waits for its end and removes what is left, also after a signal or kill -9.
 */
#pragma once

#include <sys/types.h>

struct scratch {
    char path[256];
    int lifeline; /* closed by the end of this process, which the other one waits for */
    pid_t janitor;
};

/**
 * scratch_open() - a new folder <base>/<prefix>-XXXXXX
 * @base: NULL: TMPDIR, else /tmp
 *
 * Called before threads are started: it forks. Ends the process where there can be none.
 */
void scratch_open(struct scratch *ret_scratch, const char *base, const char *prefix);
/** scratch_close() - returns when the folder has been removed, with all that is in it */
void scratch_close(struct scratch *scratch);
