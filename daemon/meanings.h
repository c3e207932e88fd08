/*
 * What values of the mirror mean, decoded when somebody first asks and kept until they change: a
 * leader looks at a job again and again, and of a thousand reports few are new.
 */
#pragma once

#include "daemon/mirror.h"
#include "elastic/plan.h"
#include "elastic/report.h"
#include "membership/records.h"

/** meaning_of_plan() - the plan at @entry
 * @ret_plan: shared (plan_share()), the caller's to free
 * Return: 0; -EINVAL (not understood: @error); -ENOMEM */
int meaning_of_plan(const struct mirror *mirror, const struct mirror_entry *entry,
                    struct plan **ret_plan, struct error *error) CHECK_RESULT;

/** meaning_of_report() - the report at @entry
 * Return: borrowed until the mirror changes; NULL: it is not understood, or memory is short */
const struct node_report *meaning_of_report(const struct mirror *mirror,
                                            const struct mirror_entry *entry);

/** meaning_of_state() - what the leader says of a job at @entry
 * Return: borrowed until the mirror changes; NULL: it is not understood, or memory is short */
const struct state_record *meaning_of_state(const struct mirror *mirror,
                                            const struct mirror_entry *entry);

/** meaning_of_desired() - what is asked for of a job at @entry; as meaning_of_state() */
const struct desired_record *meaning_of_desired(const struct mirror *mirror,
                                                const struct mirror_entry *entry);

/** meaning_of_checkpoint() - the record at @entry; as meaning_of_state() */
const struct checkpoint_record *meaning_of_checkpoint(const struct mirror *mirror,
                                                      const struct mirror_entry *entry);

/** meaning_of_devices_min() - elastic.devices.min of the job at @entry; 0: it is not understood, or
 * memory is short. A specification is large, so no more of it is kept */
unsigned meaning_of_devices_min(const struct mirror *mirror, const struct mirror_entry *entry);
