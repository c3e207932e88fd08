/*
 * A checkpoint of several nodes, as one process tells another where to read it: firnctl finds it in
 * etcd, and the program that it becomes reads it.
 *
 * The text has the key under which nodes give files away: it goes through memory that only the two
 * share, never into a file or an argument.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

#define SOURCE_TEXT_MAX ((size_t)1 << 20)

/** source_text_encode() - one line of JSON; -ENOMEM */
int source_text_encode(const struct checkpoint_remote *remote, const char *manifest_sha256,
                       struct bytes *into) CHECK_RESULT;
/** source_text_decode() - @text may be anything; *ret_remote is the caller's. -EINVAL, -ENOMEM */
int source_text_decode(const char *text, size_t size_bytes, struct checkpoint_remote **ret_remote,
                       char ret_sha256[65], struct error *error) CHECK_RESULT;
