/* The slots of a dry run: "8@80GiB" on nodes a, b, c, ... */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/name.h"

#define PLAN_SLOTS_EACH_MAX 4096

/**
 * plan_slots_parse() - "8" or "8@16GiB": a node's slots, and the memory of each
 * @ret_memory_bytes: 0 where nothing is said, which is no limit
 *
 * Return: 0, -EINVAL.
 */
int plan_slots_parse(const char *text, unsigned *ret_count,
                     uint64_t *ret_memory_bytes) CHECK_RESULT;
/** plan_slots_node_name() - a, b, ..., z, n26, n27, ... */
void plan_slots_node_name(unsigned index, char ret_name[NAME_SIZE]);
