#include "daemon/config/config_mistakes.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"

#define MORE_SIZE 40 /* of "and 12 more mistakes" */

static unsigned order(unsigned line)
{
    return line == CONFIG_MISTAKE_NOWHERE ? UINT_MAX : line;
}

void config_mistakes_add(struct config_mistakes *mistakes, unsigned line, const char *format, ...)
{
    va_list arguments;
    unsigned at = mistakes->count++;

    if (at >= CONFIG_MISTAKES_KEPT)
        return;
    for (; at > 0 && order(mistakes->kept[at - 1].line) > order(line); at--)
        mistakes->kept[at] = mistakes->kept[at - 1];
    struct config_mistake *mistake = &mistakes->kept[at];
    mistake->line = line;
    va_start(arguments, format);
    vsnprintf(mistake->words, sizeof(mistake->words), format, arguments);
    va_end(arguments);
}

bool config_mistakes_full(const struct config_mistakes *mistakes)
{
    return mistakes->count >= CONFIG_MISTAKES_KEPT;
}

/* Append a line. Return false, with nothing appended, if only the count of the rest would fit. */
static bool append(const struct config_mistakes *mistakes, const struct config_mistake *mistake,
                   char text[ERROR_TEXT_SIZE])
{
    size_t used = strlen(text), room = ERROR_TEXT_SIZE - MORE_SIZE - used;
    const char *newline = used > 0 ? "\n" : "";
    int length;

    if (mistake->line == CONFIG_MISTAKE_NOWHERE)
        length = snprintf(text + used, room, "%s%s", newline, mistake->words);
    else
        length = snprintf(text + used, room, "%s%s:%u: %s", newline, mistakes->path, mistake->line,
                          mistake->words);
    if (length < (int)room || used == 0)
        return true;
    text[used] = '\0';
    return false;
}

int config_mistakes_result(const struct config_mistakes *mistakes, struct error *error)
{
    char text[ERROR_TEXT_SIZE] = "";
    unsigned told = 0, kept = MIN(mistakes->count, CONFIG_MISTAKES_KEPT);

    while (told < kept && append(mistakes, &mistakes->kept[told], text))
        told++;
    if (told == 0)
        return 0;
    if (told == mistakes->count)
        return error_set(error, -EINVAL, "%s", text);
    return error_set(error, -EINVAL, "%s\nand %u more mistake%s", text, mistakes->count - told,
                     plural(mistakes->count - told));
}
