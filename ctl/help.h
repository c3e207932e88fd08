/* The table of commands as text for people. */
#pragma once

#include "ctl/command/command.h"

void help_print_all(void);
void help_print_command(const struct command *command);
