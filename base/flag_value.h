/*
 * Detection of missing flag values. In "--data-dir --run-dir X" the folder is missing, and
 * getopt_long() takes the next flag as its value. In all programs a value that begins with two
 * dashes is written in one word: --prompt=--help.
 */
#pragma once

#include <stdbool.h>

/** flag_value_is_flag() - return whether @value looks like a flag */
bool flag_value_is_flag(const char *value);

/**
 * flag_value_forgotten() - return whether the last value of getopt_long() is a separate word of
 * @argv that looks like a flag
 */
bool flag_value_forgotten(char *const *argv);
