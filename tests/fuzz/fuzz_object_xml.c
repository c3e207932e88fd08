/* Answers of an object store: for any input, decoded values are within their bounds. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/object/object_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct object_page page;
    struct object_list list = {0};
    struct error error;
    if (object_xml_parse(data, size, &page, &list, &error) == 0) {
        for (size_t i = 0; i < list.count; i++) {
            const struct object_item *item = &list.items[i];
            if (!item->tag || strlen(item->tag) >= OBJECT_TAG_SIZE ||
                (!item->key ? item->number == 0 : item->key[0] == '\0') ||
                item->number > OBJECT_PARTS_MAX)
                abort();
        }
    }
    object_list_done(&list);
    return 0;
}
