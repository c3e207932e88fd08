/* Doubles as the hexadecimal text of their bits, for exact values in JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BITS64_TEXT_SIZE 17

void bits64_text(double value, char ret_text[BITS64_TEXT_SIZE]);

/**
 * bits64_parse() - parse the exact form of bits64_text(); otherwise return false and write nothing
 */
bool bits64_parse(const char *text, double *ret_value);
