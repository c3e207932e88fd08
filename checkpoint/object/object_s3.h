/*
 * An S3-compatible store as an object store (object.h): path-style addresses, SigV4, multipart
 * uploads, CRC32C of every object and part if the store supports it.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/object/object.h"
#include "checkpoint/object/object_settings.h"

/**
 * object_s3_open() - prepare a store without making a request
 * @settings: copied
 * @stop: NULL, or a flag that soon ends every call with -ECANCELED; outlives the store
 *
 * Return: 0, -EINVAL (invalid bucket name), -ENOMEM.
 */
int object_s3_open(const struct object_settings *settings, const char *bucket,
                   const atomic_bool *stop, struct object_store *ret_store,
                   struct error *error) CHECK_RESULT;
void object_s3_close(struct object_store *store);

/**
 * object_bucket_valid() - return whether @bucket is 3 to 63 of [a-z0-9.-], with a letter or digit
 * at both ends
 */
bool object_bucket_valid(const char *bucket);
