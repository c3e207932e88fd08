/*
 * Serve the traces of a job's workers on this node (elastic/messages/trace_ring.h) over HTTP. The
 * files are read while workers write them. Allowed on any thread.
 */
#pragma once

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/trace_ring.h"

#define TRACE_FILES_SPANS_MAX 4000u /* per answer; a client asks again from its last span */

/** trace_files_list() - append a line (trace_entry.h) for each ring in the job's @folder, readable
 * or not. Return: 0; -ENOENT: there is none; -ENOMEM */
int trace_files_list(const char *folder, struct bytes *body, struct error *error) CHECK_RESULT;

/** trace_files_read() - append the matching spans of the ring at @path, as trace_ring_select()
 * does. Return: as trace_ring_select(), or the error of file_read() */
int trace_files_read(const char *path, const struct trace_query *query, struct bytes *body,
                     struct error *error) CHECK_RESULT;
