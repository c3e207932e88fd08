/*
 * What values of the mirror mean, decoded when somebody first asks and kept until they change: a
 * leader looks at a job again and again, and of a thousand reports few are new.
 */
#pragma once

#include "daemon/core/mirror.h"
#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"
#include "membership/kv/records.h"

/** decode_cache_plan() - the plan at @entry
 * @ret_plan: shared (plan_share()), the caller's to free
 * Return: 0; -EINVAL (not understood: @error); -ENOMEM */
int decode_cache_plan(const struct mirror *mirror, const struct mirror_entry *entry,
                      struct plan **ret_plan, struct error *error) CHECK_RESULT;

/** decode_cache_report() - the report at @entry
 * Return: borrowed until the mirror changes; NULL: it is not understood, or memory is short */
const struct node_report *decode_cache_report(const struct mirror *mirror,
                                              const struct mirror_entry *entry);

/** decode_cache_state() - what the leader says of a job at @entry
 * Return: borrowed until the mirror changes; NULL: it is not understood, or memory is short */
const struct state_record *decode_cache_state(const struct mirror *mirror,
                                              const struct mirror_entry *entry);

/** decode_cache_desired() - what is asked for of a job at @entry; as decode_cache_state() */
const struct desired_record *decode_cache_desired(const struct mirror *mirror,
                                                  const struct mirror_entry *entry);

/** decode_cache_checkpoint() - the record at @entry; as decode_cache_state() */
const struct checkpoint_record *decode_cache_checkpoint(const struct mirror *mirror,
                                                        const struct mirror_entry *entry);

/** decode_cache_devices_min() - elastic.devices.min of the job at @entry; 0: it is not understood,
 * or memory is short. A specification is large, so no more of it is kept */
unsigned decode_cache_devices_min(const struct mirror *mirror, const struct mirror_entry *entry);
