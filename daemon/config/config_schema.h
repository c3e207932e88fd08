/*
 * The one table of firnd's configuration. The keys of the file, the flags, their checks and
 * `firnd --help` all come from it, so they cannot disagree. A new key is one row here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/config/config.h"

enum config_type {
    CONFIG_TYPE_TEXT,     /* char[size] */
    CONFIG_TYPE_UNSIGNED, /* unsigned */
    CONFIG_TYPE_PERIOD,   /* uint64_t, nanoseconds; written as a number of @unit_ns */
    CONFIG_TYPE_CHOICE,   /* an enumeration: the index of the word */
    CONFIG_TYPE_SWITCH,   /* bool: whether the word is the one at index @on */
};

struct config_key {
    const char *name; /* in the file; a flag has '-' for '_' */
    enum config_type type;
    size_t offset, size; /* in struct config */
    unsigned min, max;   /* for numbers */
    uint64_t unit_ns;
    const char *words[4]; /* NULL-terminated */
    unsigned on;
    int (*check)(const char *text, struct error *error); /* for texts; NULL: any text is valid */
    const char *help;
};

#define CONFIG_KEYS_MAX 64

extern const struct config_key config_keys[];
extern const unsigned config_key_count;

/** config_key_find() - return the row of @name, or NULL */
const struct config_key *config_key_find(const char *name);

/** config_key_nearest() - return the name that @written is probably a misspelling of, or NULL */
const char *config_key_nearest(const char *written);

/**
 * config_key_decode() - set the key's field of @config from @text
 *
 * Return: 0; -EINVAL: nothing is set, and @ret_words has the reason.
 */
int config_key_decode(const struct config_key *key, const char *text, struct config *config,
                      char *ret_words, size_t words_size) CHECK_RESULT;
