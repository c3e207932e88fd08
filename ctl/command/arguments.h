/*
 * Parse a command line by the table of commands. Flags may appear before or after the command's
 * words; "--" ends the flags.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ctl/command/command.h"

#define ARGUMENTS_FLAGS_MAX    64
#define ARGUMENTS_OPERANDS_MAX 16

struct arguments {
    const struct command *command; /* NULL: none given */
    struct {
        const struct flag *flag;
        const char *value; /* NULL for a switch */
    } given[ARGUMENTS_FLAGS_MAX];
    unsigned given_count;
    const char *operands[ARGUMENTS_OPERANDS_MAX];
    unsigned operand_count;
    bool help; /* --help or -h: nothing else has been checked */
};

/**
 * arguments_parse() - parse @argv, which lacks the program's name; texts are borrowed from it
 *
 * Return: 0; -EINVAL: unknown command or flag (with the nearest known one), a missing or
 * out-of-range value, too few or too many operands.
 */
int arguments_parse(int argc, const char *const *argv, struct arguments *ret_arguments,
                    struct error *error) CHECK_RESULT;

bool arguments_has(const struct arguments *arguments, const char *flag);
/** arguments_text() - return the last value given, or @otherwise */
const char *arguments_text(const struct arguments *arguments, const char *flag,
                           const char *otherwise);
uint64_t arguments_number(const struct arguments *arguments, const char *flag, uint64_t otherwise);
/** arguments_each() - return the @index-th value of a flag that may be repeated, or NULL */
const char *arguments_each(const struct arguments *arguments, const char *flag, unsigned index);
