/* Valid names are safe as an etcd key segment, a folder and a word on a command line. */
#include "base/name.h"

#include <stddef.h>
#include <string.h>

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_valid(const char *name)
{
    size_t length = strnlen(name, NAME_SIZE);
    if (length == 0 || length == NAME_SIZE || !is_letter_or_digit(name[0]))
        return false;
    for (size_t i = 1; i < length; i++)
        if (!is_letter_or_digit(name[i]) && !strchr("._-", name[i]))
            return false;
    return true;
}
