/*
 * The synchronous steps that both backends share. They are rare, ordered and durable, so
 * asynchronous calls would gain nothing. The context is not used.
 */
#pragma once

#include "checkpoint/io/io.h"

int io_step_create(struct io_context *context, const char *path, bool direct) CHECK_RESULT;
int io_step_truncate(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT;
int io_step_sync(struct io_context *context, int descriptor) CHECK_RESULT;
int io_step_close_file(struct io_context *context, int descriptor) CHECK_RESULT;
int io_step_rename(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
int io_step_link(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
int io_step_sync_directory(struct io_context *context, const char *path) CHECK_RESULT;
int io_step_make_directory(struct io_context *context, const char *path) CHECK_RESULT;
int io_step_unlink(struct io_context *context, const char *path) CHECK_RESULT;
int io_step_reserve(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT;
