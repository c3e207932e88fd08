/*
 * Decode values of the mirror at their first use and cache the result until the value changes: a
 * leader reads each job many times, and few of a thousand reports are new.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

/** decode_cache_plan() - return the plan at @entry
 * @ret_plan: shared (plan_share()); the caller frees it
 * Return: 0; -EINVAL (malformed: @error); -ENOMEM */
int decode_cache_plan(const struct mirror *mirror, const struct mirror_entry *entry,
                      struct plan **ret_plan, struct error *error) CHECK_RESULT;

/** decode_cache_report() - return the report at @entry
 * Return: borrowed until the mirror changes; NULL: malformed, or memory is short */
const struct node_report *decode_cache_report(const struct mirror *mirror,
                                              const struct mirror_entry *entry);

/** decode_cache_state() - return the job state that the leader wrote at @entry
 * Return: borrowed until the mirror changes; NULL: malformed, or memory is short */
const struct state_record *decode_cache_state(const struct mirror *mirror,
                                              const struct mirror_entry *entry);

/** decode_cache_desired() - return the desired state of the job at @entry; as
 * decode_cache_state() */
const struct desired_record *decode_cache_desired(const struct mirror *mirror,
                                                  const struct mirror_entry *entry);

/** decode_cache_checkpoint() - return the record at @entry; as decode_cache_state() */
const struct checkpoint_record *decode_cache_checkpoint(const struct mirror *mirror,
                                                        const struct mirror_entry *entry);

/** decode_cache_devices_min() - return elastic.devices.min of the job at @entry; 0: malformed,
 * or memory is short. A specification is large, so the cache keeps no more of it */
unsigned decode_cache_devices_min(const struct mirror *mirror, const struct mirror_entry *entry);
