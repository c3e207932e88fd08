/* Records of checkpoints as the mirror has them, and how they are written again with a change. */
#pragma once

#include <stdbool.h>

#include "daemon/core/mirror.h"
#include "membership/kv/records.h"

/** checkpoint_entry_read() - @ret_record: zeroed, or of an earlier reading, which is freed; false:
 * @entry is NULL or is not understood */
bool checkpoint_entry_read(const struct mirror_entry *entry, struct checkpoint_record *ret_record);

/** checkpoint_entry_text() - @record as a value of etcd, to be freed; NULL: memory is short */
char *checkpoint_entry_text(const struct checkpoint_record *record);

/** checkpoint_entry_damaged() - the record at @entry with what is wrong with the checkpoint, to be
 * freed; NULL: it is not understood, or memory is short */
char *checkpoint_entry_damaged(const struct mirror_entry *entry, const char *why);
