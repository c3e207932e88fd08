/*
 * Keep what firn-worker measured of this node's slots in a file of the data folder: one line of
 * what was measured on (the key), one line of the worker's answer. A firnd that starts again on the
 * same devices repeats the answer and does not measure beside its workers.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

#define KEPT_RATES_LINE_SIZE  256
#define KEPT_RATES_KEY_SIZE   384
#define KEPT_RATES_MEASURE_NS (30 * NS_PER_SECOND) /* a GPU's contexts may take seconds each */

/** kept_rates_recall() - read the line that @path keeps for @key
 * @ret_line: "" where the file is missing, damaged or of another key */
void kept_rates_recall(const char *path, const char *key, char ret_line[KEPT_RATES_LINE_SIZE]);

/** kept_rates_keep() - replace @path; a failure is logged as a warning */
void kept_rates_keep(const char *path, const char *key, const char *line);

/** kept_rates_number() - read "NAME NUMBER", finite and not below 0, at *@next, which then is what
 * follows. Return: false, with *@next as it was, where something else stands there */
bool kept_rates_number(const char **next, const char *name, double *ret_number);
