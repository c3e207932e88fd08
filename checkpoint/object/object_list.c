/* Listings of an object store in memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/object/object.h"

#define FIRST_CAPACITY 16

void object_list_done(struct object_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].key);
        free(list->items[i].tag);
    }
    free(list->items);
    *list = (struct object_list){0};
}

/* The capacity is the power of two at or above the count, so it need not be stored. */
static int make_room(struct object_list *list)
{
    size_t count = list->count;
    bool full = count == 0 || (count >= FIRST_CAPACITY && (count & (count - 1)) == 0);
    if (count >= OBJECT_ITEMS_MAX)
        return -EFBIG;
    if (!full)
        return 0;
    struct object_item *grown =
        realloc(list->items, (count == 0 ? FIRST_CAPACITY : 2 * count) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    list->items = grown;
    return 0;
}

int object_list_add(struct object_list *list, const struct object_item *item)
{
    struct object_item copy = *item;
    int status = make_room(list);
    if (status != 0)
        return status;
    copy.key = item->key ? strdup(item->key) : NULL;
    copy.tag = item->tag ? strdup(item->tag) : NULL;
    if ((item->key && !copy.key) || (item->tag && !copy.tag)) {
        free(copy.key);
        free(copy.tag);
        return -ENOMEM;
    }
    list->items[list->count++] = copy;
    return 0;
}
