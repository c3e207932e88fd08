/*
 * Answers of etcd: for any input, decoded values are whole and within their bounds. The first byte
 * chooses the request: an operation, or a watch.
 */
#include <stdlib.h>
#include <string.h>

#include "membership/etcd/etcd_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entry(const struct kv_entry *entry)
{
    if (!entry->key || entry->key[0] == '\0' || strlen(entry->key) >= KV_KEY_MAX || !entry->value ||
        entry->value_bytes > KV_VALUE_MAX || entry->value[entry->value_bytes] != '\0' ||
        entry->mod_revision < 0 || entry->create_revision < 0 || entry->version < 0)
        abort();
}

static void check_reply(enum etcd_operation operation, const uint8_t *data, size_t size)
{
    struct etcd_reply reply;
    struct error error = {0};
    if (etcd_decode_reply(operation, data, size, &reply, &error) != 0) {
        if (error.text[0] == '\0')
            abort();
        return;
    }
    if (reply.result.entry_count > ETCD_ENTRIES_MAX || reply.result.revision < 0 ||
        (operation == ETCD_AUTHENTICATE && (!reply.token || reply.token[0] == '\0')) ||
        (operation == ETCD_LEASE_GRANT && reply.result.lease == 0))
        abort();
    for (size_t i = 0; i < reply.result.entry_count; i++)
        check_entry(&reply.result.entries[i]);
    etcd_reply_done(&reply);
}

static void check_watch(const uint8_t *data, size_t size)
{
    struct etcd_watch_message message;
    struct error error = {0};
    if (etcd_decode_watch(data, size, &message, &error) != 0) {
        if (error.text[0] == '\0')
            abort();
        return;
    }
    if (message.event_count > ETCD_ENTRIES_MAX || message.revision < 0 ||
        message.compact_revision < 0 ||
        !memchr(message.cancel_reason, '\0', sizeof(message.cancel_reason)))
        abort();
    for (size_t i = 0; i < message.event_count; i++)
        check_entry(&message.events[i].entry);
    etcd_watch_message_done(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned asked = data[0] % (ETCD_OPERATION_COUNT + 1);
    if (asked == ETCD_OPERATION_COUNT)
        check_watch(data + 1, size - 1);
    else
        check_reply((enum etcd_operation)asked, data + 1, size - 1);
    return 0;
}
