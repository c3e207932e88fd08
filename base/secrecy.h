/* Protection of keys in memory and in files from other users and processes. */
#pragma once

#include <stdbool.h>

/**
 * secrecy_guard_process() - write no core dump, and let no other process of this user read the
 * memory or attach to it (PR_SET_DUMPABLE); do nothing when the environment has FIRN_DUMPABLE=1,
 * for a debugger or a profiler
 */
void secrecy_guard_process(void);

/**
 * secrecy_file_is_open() - return whether users other than its owner and group may read the file at
 * @path; false when the file cannot be checked
 */
bool secrecy_file_is_open(const char *path);

/**
 * secrecy_warn_of_file() - log a warning with the fix if the file at @path, which contains the
 * secret @what, is open to all users
 */
void secrecy_warn_of_file(const char *path, const char *what);
