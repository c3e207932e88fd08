/* Keys in memory and in files stay with their owner. */
#pragma once

#include <stdbool.h>

/**
 * secrecy_guard_process() - write no core dump, and let no other process of this user read the
 * memory or attach to it (PR_SET_DUMPABLE); nothing where FIRN_DUMPABLE=1 is in the environment,
 * for a debugger or a profiler
 */
void secrecy_guard_process(void);

/** secrecy_file_is_open() - whether users other than its owner and group may read the file at
 * @path; false where it cannot be looked at */
bool secrecy_file_is_open(const char *path);

/** secrecy_warn_of_file() - log that the file at @path, which holds @what, is open to all users,
 * and how to mend that; nothing where it is not */
void secrecy_warn_of_file(const char *path, const char *what);
