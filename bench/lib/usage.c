#include "bench/lib/usage.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void print_options(FILE *file, const char *program, const struct usage_option *options,
                          size_t option_count)
{
    fprintf(file, "usage: %s [option value]...\n", program);
    for (size_t i = 0; i < option_count; i++)
        fprintf(file, "  %-14s %-7s %s\n", options[i].name, options[i].value, options[i].meaning);
}

static bool is_known(const char *word, const struct usage_option *options, size_t option_count)
{
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(word, options[i].name) == 0)
            return true;
    return false;
}

void usage_check(int argc, char **argv, const struct usage_option *options, size_t option_count)
{
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_options(stdout, argv[0], options, option_count);
            exit(EXIT_SUCCESS);
        }
        bool known = is_known(argv[i], options, option_count);
        if (known && i + 1 < argc)
            continue;
        fprintf(stderr, known ? "%s: %s wants a value\n" : "%s: there is no option \"%s\"\n",
                argv[0], argv[i]);
        print_options(stderr, argv[0], options, option_count);
        exit(EXIT_USAGE);
    }
}
