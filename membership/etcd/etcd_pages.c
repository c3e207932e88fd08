#include "membership/etcd/etcd_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 4096 /* per page, initially */
#define SMALLER  4

struct etcd_pages {
    char prefix[KV_KEY_MAX], before[KV_KEY_MAX]; /* before "": to the end of the prefix */
    unsigned limit;
    struct etcd_reply *replies;
    size_t count, entry_count;
    struct kv_entry *entries; /* of all pages */
};

struct etcd_pages *etcd_pages_new(const char *prefix, const char *before)
{
    struct etcd_pages *pages = calloc(1, sizeof(*pages));

    if (!pages)
        return NULL;
    assert(strlen(prefix) < KV_KEY_MAX && (!before || strlen(before) < KV_KEY_MAX));
    stpcpy(pages->prefix, prefix);
    stpcpy(pages->before, before ? before : "");
    pages->limit = KEYS_MAX;
    return pages;
}

void etcd_pages_free(struct etcd_pages *pages)
{
    if (!pages)
        return;
    for (size_t i = 0; i < pages->count; i++)
        etcd_reply_done(&pages->replies[i]);
    free(pages->replies);
    free(pages->entries);
    free(pages);
}

/* Return the last page received; it has entries if another page follows. */
static const struct kv_result *last_page(const struct etcd_pages *pages)
{
    return pages->count ? &pages->replies[pages->count - 1].result : NULL;
}

int etcd_pages_encode(const struct etcd_pages *pages, struct bytes *body)
{
    const struct kv_result *last = last_page(pages);
    const struct etcd_range range = {
        .prefix = pages->prefix,
        .before = pages->before[0] ? pages->before : NULL,
        .after = last ? last->entries[last->entry_count - 1].key : NULL,
        .limit = pages->limit,
        .revision = last ? pages->replies[0].result.revision : 0,
    };

    body->size_bytes = 0;
    return etcd_encode_range_below(body, &range);
}

int etcd_pages_take(struct etcd_pages *pages, struct etcd_reply *reply)
{
    struct etcd_reply *replies =
        reallocarray(pages->replies, pages->count + 1, sizeof(*pages->replies));

    if (!replies)
        return -ENOMEM;
    pages->replies = replies;
    replies[pages->count++] = *reply;
    pages->entry_count += reply->result.entry_count;
    *reply = (struct etcd_reply){0};
    return replies[pages->count - 1].has_more && last_page(pages)->entry_count > 0;
}

bool etcd_pages_shrink(struct etcd_pages *pages)
{
    if (pages->limit == 1)
        return false;
    pages->limit /= SMALLER;
    return true;
}

int etcd_pages_gather(struct etcd_pages *pages, struct kv_result *ret_result)
{
    size_t at = 0;

    *ret_result = pages->replies[0].result;
    if (pages->count == 1)
        return 0;
    pages->entries = calloc(pages->entry_count, sizeof(*pages->entries));
    if (!pages->entries)
        return -ENOMEM;
    for (size_t i = 0; i < pages->count; i++) {
        const struct kv_result *page = &pages->replies[i].result;
        for (size_t k = 0; k < page->entry_count; k++)
            pages->entries[at++] = page->entries[k];
    }
    ret_result->entries = pages->entries;
    ret_result->entry_count = at;
    return 0;
}
