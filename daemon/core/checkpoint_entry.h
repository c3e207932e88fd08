/* Decode checkpoint records from mirror entries, and encode them again with a change. */
#pragma once

#include <stdbool.h>

#include "daemon/core/mirror.h"
#include "membership/kv/records.h"

/** checkpoint_entry_read() - decode @entry
 * @ret_record: zeroed, or from an earlier call, which is freed
 * Return: false: @entry is NULL or malformed */
bool checkpoint_entry_read(const struct mirror_entry *entry, struct checkpoint_record *ret_record);

/** checkpoint_entry_follows() - return whether the job wrote @record after @other. Clocks of nodes
 * differ, and a job may have gone back to an earlier step: later generations are later */
bool checkpoint_entry_follows(const struct checkpoint_record *record,
                              const struct checkpoint_record *other);

/** checkpoint_entry_text() - encode @record as an etcd value; the caller frees it; NULL: memory
 * is short */
char *checkpoint_entry_text(const struct checkpoint_record *record);

/** checkpoint_entry_damaged() - encode the record at @entry with the damage @why added; the
 * caller frees it; NULL: malformed record, or memory is short */
char *checkpoint_entry_damaged(const struct mirror_entry *entry, const char *why);
