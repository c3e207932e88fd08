/*
 * The table of firnctl's commands, one row each. Dispatch, help and the checks of the manual page
 * and of the shell completion all read this table, so they cannot disagree.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

struct arguments;

enum flag_type { FLAG_SWITCH, FLAG_TEXT, FLAG_NUMBER, FLAG_REAL };

struct flag {
    const char *name;  /* "dir": written --dir */
    const char *value; /* "DIR"; NULL for a switch */
    enum flag_type type;
    double min, max; /* for numbers */
    const char *help;
};

#define COMMAND_FLAGS_MAX 12

struct command {
    const char *name;     /* "job submit" */
    const char *operands; /* "FILE", for the help */
    unsigned operands_min, operands_max;
    const char *summary;                         /* one line without a full stop */
    const char *details;                         /* the rest of the help; NULL: none */
    const struct flag *flags[COMMAND_FLAGS_MAX]; /* besides command_global_flags; ends with NULL */
    /* 0: done; negative: failed, @error says why (exit 1); COMMAND_FAILED: failed, already printed;
     * COMMAND_USAGE: wrong usage, @error says how */
    int (*run)(const struct arguments *arguments, struct error *error);
    bool asks_nodes; /* the command works without etcd: it asks the nodes */
};

enum { COMMAND_DONE = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

extern const struct command commands[];
extern const unsigned command_count;

/* Flags that are allowed before and after every command. Ends with NULL. */
extern const struct flag *const command_global_flags[];

/** command_find() - find a command by its full name; NULL: none */
const struct command *command_find(const char *name);

/** command_flag() - return the flag @name of @command (its own or a global one), or NULL */
const struct flag *command_flag(const struct command *command, const char *name);

/** command_any_flag() - return the first flag called @name of any command, or NULL. Flags of equal
 * names all take a value, or none does */
const struct flag *command_any_flag(const char *name);
