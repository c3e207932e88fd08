/* Doubles as the hexadecimal text of their bits: how exact values travel in JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BITS64_TEXT_SIZE 17

void bits64_text(double value, char ret_text[BITS64_TEXT_SIZE]);

/** bits64_parse() - false, and nothing written: not exactly what bits64_text() makes */
bool bits64_parse(const char *text, double *ret_value);
