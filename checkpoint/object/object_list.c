/* What an object store lists, held in memory. */
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

/* The capacity is the power of two at or above the count, so it need not be kept. */
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
    if (grown == NULL)
        return -ENOMEM;
    list->items = grown;
    return 0;
}

int object_list_add(struct object_list *list, const struct object_item *item)
{
    struct object_item copy = *item;
    int r = make_room(list);
    if (r != 0)
        return r;
    copy.key = item->key != NULL ? strdup(item->key) : NULL;
    copy.tag = item->tag != NULL ? strdup(item->tag) : NULL;
    if ((item->key != NULL && copy.key == NULL) || (item->tag != NULL && copy.tag == NULL)) {
        free(copy.key);
        free(copy.tag);
        return -ENOMEM;
    }
    list->items[list->count++] = copy;
    return 0;
}
