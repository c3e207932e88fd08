/* Find the programs that firnctl starts: beside firnctl itself, else on PATH. */
#pragma once

#include "ctl/local/process.h"

/** program_path_find() - find a program. Return: 0; -ENOENT, with the remedy in @error */
int program_path_find(const char *name, char ret_path[PROCESS_PATH_SIZE],
                      struct error *error) CHECK_RESULT;
