/*
 * Two kinds of text that several messages carry. An identity (random, of a worker process or of a
 * firnd) uses all 64 bits, which a JSON integer does not carry, so it travels as 16 hexadecimal
 * digits. Sentences for people may have been cut anywhere or hold what a program printed; a byte
 * that is not UTF-8 must not make the whole message impossible to encode.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/** wire_instance() - new reference, NULL when memory is short */
json_t *wire_instance(uint64_t instance);
/** wire_get_identity() - of @key; -EINVAL names it; wire_get_instance() - of key "instance" */
int wire_get_identity(const json_t *tree, const char *key, uint64_t *ret_identity,
                      struct error *error) CHECK_RESULT;
int wire_get_instance(const json_t *tree, uint64_t *ret_instance, struct error *error) CHECK_RESULT;

/** wire_sentence() - @text, with '?' for every byte beyond ASCII if it is not valid UTF-8 */
json_t *wire_sentence(const char *text);
