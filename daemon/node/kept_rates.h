/*
 * Keep firn-worker's measurement of this node's slots in a file of the data folder: one line with
 * the key, which names the measured devices and software, and one line with the worker's answer. A
 * firnd that restarts on the same devices reuses the answer and does not measure beside its
 * workers.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

#define KEPT_RATES_LINE_SIZE  256
#define KEPT_RATES_KEY_SIZE   384
#define KEPT_RATES_MEASURE_NS (30 * NS_PER_SECOND) /* each GPU's context may take seconds */

/** kept_rates_recall() - read the line that @path keeps for @key
 * @ret_line: "" if the file is missing, damaged or for another key */
void kept_rates_recall(const char *path, const char *key, char ret_line[KEPT_RATES_LINE_SIZE]);

/** kept_rates_keep() - replace @path; a failure is logged as a warning */
void kept_rates_keep(const char *path, const char *key, const char *line);

/** kept_rates_number() - parse "NAME NUMBER", finite and not below 0, at *@next; advance *@next
 * past it. Return: false, with *@next unchanged, if the text is something else */
bool kept_rates_number(const char **next, const char *name, double *ret_number);
