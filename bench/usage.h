/* What a benchmark may be told, and that nothing else is taken for it. */
#pragma once

#include <stddef.h>

/* "--rounds", "N", "how often everything is measured (3)"; every option has a value. */
struct usage_option {
    const char *name, *value, *meaning;
};

/**
 * usage_check() - every argument is one of @options and followed by its value
 *
 * Called first by main(). Ends the process otherwise: --help prints them (status 0), anything that
 * is not among them is refused by name (status 2): a mistyped option would measure something else.
 */
void usage_check(int argc, char **argv, const struct usage_option *options, size_t option_count);
