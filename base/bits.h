/* Floating-point numbers as the hexadecimal text of their bits: how exact values travel in JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BITS32_TEXT_SIZE 9
#define BITS64_TEXT_SIZE 17

void bits32_text(float value, char ret_text[BITS32_TEXT_SIZE]);
void bits64_text(double value, char ret_text[BITS64_TEXT_SIZE]);
bool bits32_parse(const char *text, float *ret_value);
bool bits64_parse(const char *text, double *ret_value);
