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
    double min, max; /* of numbers */
    const char *help;
};

#define COMMAND_FLAGS_MAX 12

struct command {
    const char *name;     /* "job submit" */
    const char *operands; /* "FILE", for people */
    unsigned operands_min, operands_max;
    const char *summary; /* one line without a full stop */
    const char *details; /* the rest of the help; NULL: the summary says it all */
    const struct flag *flags[COMMAND_FLAGS_MAX]; /* beside command_global_flags; ends with NULL */
    /* 0: done; negative: failed, @error says why (exit 1); COMMAND_FAILED: failed, already printed;
     * COMMAND_USAGE: wrong usage, @error says how */
    int (*run)(const struct arguments *arguments, struct error *error);
    bool asks_nodes; /* the command works without etcd: it asks the nodes */
};

enum { COMMAND_DONE = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

extern const struct command commands[];
extern const unsigned command_count;

/* Understood before and after every command. Ends with NULL. */
extern const struct flag *const command_global_flags[];

/** command_find() - by its full name, or NULL */
const struct command *command_find(const char *name);

/** command_flag() - the flag @name of @command (its own or a global one), or NULL */
const struct flag *command_flag(const struct command *command, const char *name);

/** command_any_flag() - the first flag called @name of any command, or NULL. Equal names take a
 * value everywhere or nowhere */
const struct flag *command_any_flag(const char *name);
