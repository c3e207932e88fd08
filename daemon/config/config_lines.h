/*
 * Find every line of a configuration file that its parser refuses. The parser stops at the first
 * mistake; an operator wants to see all of them at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

/** Return the key at @index; NULL after the last. */
typedef const char *config_name_at(size_t index);

/**
 * config_lines_check() - check each line for an unknown or repeated key, a tab, or a list or map in
 * the place of a value
 * @text: ends with a 0. On return, lines that would stop the parser are blank; line numbers are
 * unchanged.
 *
 * Return: 0: no mistake found; -EINVAL: @error has a line for each mistake; -ENOMEM.
 */
int config_lines_check(const char *path, char *text, config_name_at *name_at,
                       struct error *error) CHECK_RESULT;

/** config_lines_find() - return the number of the line that begins with @key, from 1; 0: none */
unsigned config_lines_find(const char *text, const char *key);

/** config_lines_nearest() - return the key that was probably meant, or NULL */
const char *config_lines_nearest(const char *written, config_name_at *name_at);

/** config_lines_add() - append a line to @error. Return: -EINVAL */
int config_lines_add(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
