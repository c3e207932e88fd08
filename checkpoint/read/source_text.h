/*
 * Pass the location of a checkpoint with copies from one process to another: firnctl finds it in
 * etcd, and the program that firnctl executes reads it.
 *
 * The text contains the key under which nodes serve files. It goes through memory shared only by
 * the two, never through a file or an argument.
 */
#pragma once

#include "base/bytes.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

#define SOURCE_TEXT_MAX ((size_t)1 << 20)

/** source_text_encode() - encode as one line of JSON; -ENOMEM */
int source_text_encode(const struct checkpoint_remote *remote, const char *manifest_sha256,
                       struct bytes *into) CHECK_RESULT;
/** source_text_decode() - decode an untrusted @text; the caller owns *ret_remote. -EINVAL,
 * -ENOMEM */
int source_text_decode(const char *text, size_t size_bytes, struct checkpoint_remote **ret_remote,
                       char ret_sha256[65], struct error *error) CHECK_RESULT;
