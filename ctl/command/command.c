#include "ctl/command/command.h"

#include <stddef.h>
#include <string.h>

const struct command *command_find(const char *name)
{
    for (unsigned i = 0; i < command_count; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static const struct flag *find_flag(const struct flag *const *flags, const char *name)
{
    for (; *flags; flags++)
        if (!strcmp((*flags)->name, name))
            return *flags;
    return NULL;
}

const struct flag *command_flag(const struct command *command, const char *name)
{
    const struct flag *flag = find_flag(command->flags, name);

    return flag ? flag : find_flag(command_global_flags, name);
}

const struct flag *command_any_flag(const char *name)
{
    const struct flag *flag = find_flag(command_global_flags, name);

    for (unsigned i = 0; i < command_count && !flag; i++)
        flag = find_flag(commands[i].flags, name);
    return flag;
}
