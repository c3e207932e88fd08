/*
 * Check at the start of a job that its checkpoints can be uploaded. A wrong key or a missing bucket
 * should be reported before hours of computing, not with the first checkpoint.
 */
#pragma once

#include "checkpoint/object/object.h"

/**
 * object_try() - list the job's keys, and put a small test object
 *
 * The object, <prefix>/<job>/step-try, does not belong to a checkpoint and is removed again. A
 * failure to remove the object is no error, because the key may lack that permission.
 *
 * Return: 0; errors of list() and put(); -ENAMETOOLONG
 */
int object_try(const struct object_store *store, const char *prefix, const char *job,
               struct error *error) CHECK_RESULT;
