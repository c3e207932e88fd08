/* Check the options of a benchmark; any other argument is refused. */
#pragma once

#include <stddef.h>

/* "--rounds", "N", "how often everything is measured (3)"; every option has a value. */
struct usage_option {
    const char *name, *value, *meaning;
};

/**
 * usage_check() - check that every argument is one of @options and followed by its value
 *
 * main() calls it first. On --help, print the options and exit with status 0. On any other
 * argument, print its name and exit with status 2: a mistyped option would measure something else.
 */
void usage_check(int argc, char **argv, const struct usage_option *options, size_t option_count);
