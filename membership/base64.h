/* Base64 (RFC 4648, with padding): how etcd's gateway carries keys and values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/compiler.h"

/** base64_append() - the text of @data, without a zero. Return: 0 or -ENOMEM (buffer unchanged) */
int base64_append(struct bytes *text, const void *data, size_t size_bytes) CHECK_RESULT;

/** base64_decoded_bytes() - an upper bound for what a text of @length decodes to */
size_t base64_decoded_bytes(size_t length);

/**
 * base64_decode() - strict: no white space, padding where it belongs, unused bits zero
 * @ret_data: room for base64_decoded_bytes(@length); undefined after a failure
 *
 * Return: whether the text was well-formed.
 */
bool base64_decode(const char *text, size_t length, void *ret_data,
                   size_t *ret_size_bytes) CHECK_RESULT;
