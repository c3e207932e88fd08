/*
 * The traces of a job's workers on this node (elastic/messages/trace_ring.h), as HTTP answers. The
 * files are read while workers write them. Allowed on any thread.
 */
#pragma once

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/trace_ring.h"

#define TRACE_FILES_SPANS_MAX 4000u /* of one answer: a client asks again from its last one */

/** trace_files_list() - append a line for each ring in the job's @folder (trace_entry.h): readable
 * or not. -ENOENT: there is none; -ENOMEM */
int trace_files_list(const char *folder, struct bytes *body, struct error *error) CHECK_RESULT;

/** trace_files_read() - append the matching spans of the ring at @path, as trace_ring_select()
 * does. Its errors; errors of file_read() */
int trace_files_read(const char *path, const struct trace_query *query, struct bytes *body,
                     struct error *error) CHECK_RESULT;
