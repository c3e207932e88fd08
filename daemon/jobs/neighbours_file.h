/*
 * The nodes that a firnd has known, for the one that is started after it: in its run folder, which
 * goes with the machine's memory, as workers do.
 */
#pragma once

#include "daemon/config/config.h"

#define NEIGHBOURS_MAX 64 /* remembered, spread over all that there are */

struct neighbour {
    char name[NAME_SIZE];
    char http[ADDRESS_SIZE];
};

/** neighbours_save() - replace what was saved before; errors are logged: only knowledge is lost */
void neighbours_save(const struct config *config, const struct neighbour *list, unsigned count);

/** neighbours_load() - at most NEIGHBOURS_MAX; 0 where nothing (or nothing good) was saved */
unsigned neighbours_load(const struct config *config, struct neighbour ret_list[NEIGHBOURS_MAX]);
