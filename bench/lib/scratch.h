/*
 * A temporary folder of a benchmark. A small process waits for the end of the benchmark and removes
 * the folder, also after a signal or kill -9.
 */
#pragma once

#include <sys/types.h>

struct scratch {
    char path[256];
    int lifeline; /* closed by the end of this process; the janitor waits for that */
    pid_t janitor;
};

/**
 * scratch_open() - make a new folder <base>/<prefix>-XXXXXX
 * @base: NULL: TMPDIR, else /tmp
 *
 * Call before threads are started: the function forks. Ends the process if the folder cannot be
 * created.
 */
void scratch_open(struct scratch *ret_scratch, const char *base, const char *prefix);
/** scratch_close() - remove the folder with its content, and wait until it is removed */
void scratch_close(struct scratch *scratch);
