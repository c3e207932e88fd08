/*
 * System calls on files below one folder, failing on demand or recorded: this program's own open,
 * pwrite, fsync, rename, ... which call the kernel themselves. They are linked statically, so they
 * also serve code that does not use the table of checkpoint/io/io.h. Other files, sockets and
 * terminals are left alone.
 */
#pragma once

#include <stdbool.h>

#include "lib/checkpoint/record_io.h"

enum file_calls_kind {
    FILE_CALLS_FAIL,  /* the call has no effect */
    FILE_CALLS_SHORT, /* a read or write moves the first half; other calls are left alone */
};

/** file_calls_arm() - make call @number on a file below @below fail with @code */
void file_calls_arm(const char *below, long number, enum file_calls_kind kind, int code);

/** file_calls_disarm() - return whether the call was reached */
bool file_calls_disarm(void);

/** file_calls_record() - Record the calls below @below until file_calls_disarm() */
void file_calls_record(const char *below);

/* ---- recorded calls ---- */

/* ---- the calls ---- */
