/*
 * Save the known nodes for the next firnd of this node. The file is in the run folder, which does
 * not survive a reboot; workers do not either.
 */
#pragma once

#include "daemon/config/config.h"

#define NEIGHBOURS_MAX 64 /* limit of the list; a larger cluster is sampled evenly */

struct neighbour {
    char name[NAME_SIZE];
    char http[ADDRESS_SIZE];
};

/** neighbours_save() - replace the saved list; errors are only logged, because the list can be
 * read again */
void neighbours_save(const struct config *config, const struct neighbour *list, unsigned count);

/** neighbours_load() - load at most NEIGHBOURS_MAX nodes. Return: their count; 0 if nothing
 * valid is saved */
unsigned neighbours_load(const struct config *config, struct neighbour ret_list[NEIGHBOURS_MAX]);
