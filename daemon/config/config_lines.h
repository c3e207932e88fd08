/*
 * The lines of a configuration file that its parser refuses: what is wrong with each of them, where
 * the parser would stop at the first. Whoever mends a file wants to see all mistakes at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

/** A key by its index; NULL after the last. */
typedef const char *config_name_at(size_t index);

/**
 * config_lines_check() - look at each line for an unknown or repeated key, a tab, a list or a map
 * where a value belongs
 * @text: ends with a 0; afterwards what the parser can read of it, line by line as before: what it
 * would stop at is blank
 *
 * Return: 0: nothing is found; -EINVAL: @error has a line for each mistake; -ENOMEM.
 */
int config_lines_check(const char *path, char *text, config_name_at *name_at,
                       struct error *error) CHECK_RESULT;

/** config_lines_find() - the line that @key stands on, from 1; 0 when it is not at the beginning of
 * any */
unsigned config_lines_find(const char *text, const char *key);

/** config_lines_nearest() - the key that was probably meant, or NULL */
const char *config_lines_nearest(const char *written, config_name_at *name_at);

/** config_lines_add() - one more line of mistakes in @error; returns -EINVAL */
int config_lines_add(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
