/*
 * Integers as a fixed number of hexadecimal digits. One value has one text: lower case, leading
 * zeros, nothing before or after. Texts are equal if and only if the values are equal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * hex_text() - write @digit_count (1 to 16) digits of @value, most significant first, and a zero
 */
void hex_text(uint64_t value, unsigned digit_count, char *ret_text);

/**
 * hex_parse() - parse exactly @digit_count digits at @text; the caller checks the text after them
 */
bool hex_parse(const char *text, unsigned digit_count, uint64_t *ret_value);
