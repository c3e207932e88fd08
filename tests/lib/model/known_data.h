/*
 * Data of which a node keeps digests, in the folder of a test: files with old changes, and a wall
 * clock for which the changes are old.
 */
#pragma once

#include <time.h>

#include "lib/model/data_folder.h"

/* The wall clock of a test: ahead of the real clock, or advancing with each look. */
struct known_data_time {
    int64_t ahead_ns;
    uint64_t fixed_ns, step_ns; /* used if not 0 */
    unsigned looks;
};

/** known_data_realtime() - struct clock's realtime_ns; @context: a struct known_data_time */
uint64_t known_data_realtime(void *context);
/** known_data_later() - return a clock for which files that were just written are old enough */
const struct clock *known_data_later(void);

/** known_data_options() - make the options of the file "tokens" as large data, with the folder
 * "memo" */
struct dataset_options known_data_options(void);
void known_data_set_modified(const char *name, time_t seconds, long nanoseconds);
/** known_data_write() - write a file whose time of modification is always the same */
void known_data_write(const char *name, const char *text);
/** known_data_rewrite() - write a file of the same size; only the time of change differs, as soon
 * as the file system's clock has moved */
void known_data_rewrite(const char *name, const char *text);

/** known_data_is_read() - open the data and return whether it was read; its digest must be that
 * without a memory */
bool known_data_is_read(const struct dataset_options *options);
