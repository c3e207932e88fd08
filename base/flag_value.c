#include "base/flag_value.h"

#include <getopt.h>
#include <string.h>

bool flag_value_is_flag(const char *value)
{
    return !strncmp(value, "--", 2);
}

bool flag_value_forgotten(char *const *argv)
{
    /* After "--flag=value" optarg points into the word. */
    return optarg && optarg == argv[optind - 1] && flag_value_is_flag(optarg);
}
