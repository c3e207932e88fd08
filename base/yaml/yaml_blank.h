/* Blank lines of a YAML text, so that the rest can be parsed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * yaml_blank_line() - replace @line (from 1) and the lines that continue it by spaces
 *
 * A line continues the one above it when it is indented more, or begins with a closing bracket.
 * Line breaks stay, so that all other lines keep their numbers. Return: false when there was
 * nothing to blank.
 */
bool yaml_blank_line(char *text, size_t size_bytes, size_t line);
