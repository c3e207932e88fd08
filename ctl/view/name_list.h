/* Collect names for a message: "b, c". */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NAME_LIST_SIZE 256

/** name_list_add() - append @name to @list, unless it is in it; "..." if there is no room */
static inline void name_list_add(char list[NAME_LIST_SIZE], const char *name)
{
    size_t used = strlen(list), length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return;
    if (used + length + 8 > NAME_LIST_SIZE) {
        if (used < 3 || strcmp(list + used - 3, "...") != 0)
            memcpy(list + used, ", ...", sizeof(", ..."));
        return;
    }
    snprintf(list + used, NAME_LIST_SIZE - used, "%s%s", used > 0 ? ", " : "", name);
}
