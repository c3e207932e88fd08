/*
 * The one table of a job file's keys. Checking, defaults, JSON in both directions and the reference
 * in docs/job.md all come from it, so they cannot disagree. A new key is one row here.
 */
#pragma once

#include <stddef.h>

#include "elastic/job/job_spec.h"

enum schema_type {
    SCHEMA_NAME,          /* char[NAME_SIZE], name_valid() */
    SCHEMA_PATH,          /* char[JOB_PATH_SIZE] */
    SCHEMA_BUCKET,        /* char[NAME_SIZE]; may be empty */
    SCHEMA_PATHS,         /* struct job_paths; may be empty if it has a default */
    SCHEMA_SHARE_OR_PATH, /* data.validation_share and data.validation_path */
    SCHEMA_UNSIGNED,      /* unsigned */
    SCHEMA_BATCHES,       /* unsigned; or "all" and "auto": JOB_BATCHES_ALL, JOB_BATCHES_AUTO */
    SCHEMA_COUNT,         /* uint64_t */
    SCHEMA_REAL,          /* double */
    SCHEMA_REAL_PAIR,     /* two doubles side by side */
    SCHEMA_FLAG,          /* bool */
    SCHEMA_CHOICE,        /* an enumeration: the index of the word */
    SCHEMA_WORD,          /* char[JOB_WORD_SIZE]: the word itself */
};

struct schema_key {
    const char *path; /* "train.optimizer.lr" */
    enum schema_type type;
    size_t offset; /* in struct job_spec */
    double min, max;
    bool above_min, below_max;  /* the bound itself is not allowed */
    const char *const *choices; /* NULL-terminated */
    const char *default_json;   /* as written in a job file; NULL: required, or default_from */
    void (*default_from)(struct job_spec *spec); /* from other keys, which are already filled */
    const char *default_note; /* for docs/job.md, when default_json is not clear enough */
    bool omit_if_default; /* omitted from a job's JSON at its default_json, because older programs
                   refuse unknown keys */
    const char *unit;     /* "steps"; NULL: none */
    const char *meaning;  /* one sentence without a full stop at its end */
    const char *also;     /* names in other programs, between spaces, for "did you mean" */
};

extern const struct schema_key job_schema[];
extern const unsigned job_schema_count;

#define SCHEMA_TEXT_SIZE 256

/** schema_allowed() - describe the allowed values: "a whole number from 1 to 1024" */
void schema_allowed(const struct schema_key *key, char ret_text[SCHEMA_TEXT_SIZE]);

/** schema_find() - return the row of a full key path, or NULL */
const struct schema_key *schema_find(const char *path);

/** schema_has_section() - return whether any key is below @path ("train.optimizer") */
bool schema_has_section(const char *path);

/** schema_last_word() - return "lr" for "train.optimizer.lr" */
const char *schema_last_word(const char *path);

/** schema_required() - return whether the key has no default */
static inline bool schema_required(const struct schema_key *key)
{
    return !key->default_json && !key->default_from;
}
