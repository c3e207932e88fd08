/*
 * "--data-dir --run-dir X" has forgotten a folder, and getopt_long() takes the next flag for it.
 * In all programs a value that begins with two dashes is written in one word: --prompt=--help.
 */
#pragma once

#include <stdbool.h>

/** flag_value_is_flag() - @value is a word of its own, and looks like the flag that follows */
bool flag_value_is_flag(const char *value);

/** flag_value_forgotten() - the same of what getopt_long() has just taken from @argv */
bool flag_value_forgotten(char *const *argv);
