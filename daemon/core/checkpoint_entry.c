#include "daemon/core/checkpoint_entry.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

bool checkpoint_entry_read(const struct mirror_entry *entry, struct checkpoint_record *ret_record)
{
    AUTO_JSON json_t *tree = NULL;

    checkpoint_record_done(ret_record);
    return entry && !json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) &&
           !checkpoint_record_decode(tree, ret_record, NULL);
}

bool checkpoint_entry_follows(const struct checkpoint_record *record,
                              const struct checkpoint_record *other)
{
    if (record->generation != other->generation)
        return record->generation > other->generation;
    return record->step > other->step;
}

char *checkpoint_entry_text(const struct checkpoint_record *record)
{
    AUTO_JSON json_t *tree = checkpoint_record_encode(record);

    return tree ? json_text(tree) : NULL;
}

char *checkpoint_entry_damaged(const struct mirror_entry *entry, const char *why)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};

    if (!checkpoint_entry_read(entry, &record))
        return NULL;
    snprintf(record.damaged, sizeof(record.damaged), "%.*s", RECORD_DAMAGED_SIZE - 1, why);
    return checkpoint_entry_text(&record);
}
