/*
 * Whether a job's checkpoints can go to the object store, asked when it begins: a wrong key or a
 * bucket that is not there should be known before hours have been computed, not when the first
 * checkpoint is to be sent.
 */
#pragma once

#include "checkpoint/object/object.h"

/**
 * object_try() - list the job's keys, and put a small object beside them
 *
 * The object, <prefix>/<job>/step-try, is no checkpoint's; it is removed again. Where the store
 * lets nobody remove anything it stays, which is no error.
 *
 * Return: 0; what list() and put() say; -ENAMETOOLONG
 */
int object_try(const struct object_store *store, const char *prefix, const char *job,
               struct error *error) CHECK_RESULT;
