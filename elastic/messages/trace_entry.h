/*
 * The line of JSON by which a node describes one ring of a job (elastic/messages/trace_ring.h):
 * firnctl chooses by it which spans to ask for.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

#define TRACE_PROBLEM_SIZE 160

struct trace_entry {
    unsigned slot, age;
    unsigned pid;                     /* of the worker */
    uint64_t newest_step;             /* newest step that the worker has applied; 0: none */
    char problem[TRACE_PROBLEM_SIZE]; /* the reason why the ring cannot be read; "": it can */
};

/** trace_entry_append() - append the line of @entry; 0 or -ENOMEM */
int trace_entry_append(const struct trace_entry *entry, struct bytes *into) CHECK_RESULT;
/** trace_entry_parse() - read a line without its newline; -EINVAL (@error names the key), -ENOMEM
 */
int trace_entry_parse(const char *line, size_t length, struct trace_entry *ret_entry,
                      struct error *error) CHECK_RESULT;
