/* Print the table of commands as help text. */
#pragma once

#include "ctl/command/command.h"

void help_print_all(void);
void help_print_command(const struct command *command);
