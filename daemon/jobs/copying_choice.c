#include "daemon/jobs/copying_choice.h"

#include <string.h>

#include "daemon/core/checkpoint_entry.h"
#include "membership/kv/keys.h"

bool copying_choose(const struct mirror *mirror, const char *cluster, const char *job,
                    const struct plan *plan, unsigned copies, const char *node,
                    struct copying_task *ret_task)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    bool newest = true;
    size_t count = mirror_range(mirror, keys_job(prefix, cluster, job, "checkpoints/"), &entries);

    while (copies > 1 && count-- > 0) {
        struct checkpoint_record *record = &ret_task->record;
        if (!checkpoint_entry_read(&entries[count], record) || record->damaged[0] ||
            !(newest || record->pinned))
            continue;
        newest = false;
        ret_task->writer_count = copies_missing(plan, copies, record->shares, node,
                                                ret_task->writers, COPYING_WRITERS_MAX);
        if (ret_task->writer_count)
            return true;
    }
    return false;
}
