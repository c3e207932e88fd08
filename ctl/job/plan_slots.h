/* Make the slots of a dry run: "8@80GiB" on nodes a, b, c, ..., or the slots of a cluster. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "ctl/cluster/cluster.h"
#include "elastic/planner/planner.h"

#define PLAN_SLOTS_EACH_MAX 4096

/**
 * plan_slots_parse() - parse "8" or "8@16GiB": a node's slots, and the memory of each
 * @ret_memory_bytes: 0 if not given: no limit
 *
 * Return: 0, -EINVAL.
 */
int plan_slots_parse(const char *text, unsigned *ret_count,
                     uint64_t *ret_memory_bytes) CHECK_RESULT;
/** plan_slots_node_name() - name node @index: a, b, ..., z, n26, n27, ... */
void plan_slots_node_name(unsigned index, char ret_name[NAME_SIZE]);
/** plan_slots_of() - list the slots in service on nodes of @cluster that do not drain, used or not
 * @ret_slots: freed by the caller. Return: 0, -ENOMEM */
int plan_slots_of(const struct cluster *cluster, struct planner_slot **ret_slots,
                  unsigned *ret_count, struct error *error) CHECK_RESULT;

#define PLAN_SLOTS_WORDS_SIZE 200

/** plan_slots_measured() - return whether a slot's speed was measured, which then counts for all */
bool plan_slots_measured(const struct planner_slot *slots, unsigned count);

/** plan_slots_time_words() - describe the basis of a plan's times for such slots, in one line
 * without a newline. @precision: the job's */
const char *plan_slots_time_words(const struct planner_slot *slots, unsigned count,
                                  enum job_precision precision,
                                  char ret_words[PLAN_SLOTS_WORDS_SIZE]);
