/*
 * Two kinds of text that several messages carry. An identity (random, of a worker process or of a
 * firnd) uses all 64 bits. A JSON integer cannot carry 64 bits, so an identity is encoded as 16
 * hexadecimal digits. Sentences for users may be truncated anywhere or contain the output of a
 * program. A byte that is not UTF-8 must not make the whole message impossible to encode.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/** wire_instance() - encode an identity; new reference, NULL when out of memory */
json_t *wire_instance(uint64_t instance);
/**
 * wire_get_identity() - read the identity in @key; -EINVAL names the key
 * wire_get_instance() - read the identity in the key "instance"
 */
int wire_get_identity(const json_t *tree, const char *key, uint64_t *ret_identity,
                      struct error *error) CHECK_RESULT;
int wire_get_instance(const json_t *tree, uint64_t *ret_instance, struct error *error) CHECK_RESULT;

/**
 * wire_sentence() - encode @text, with '?' for every byte beyond ASCII if it is not valid UTF-8;
 * new reference
 */
json_t *wire_sentence(const char *text);
