/* Format quantities: 12.3k, 1h 04m, "layers 0-1". Each function returns the buffer it fills. */
#pragma once

#include <stdint.h>

#define FORMAT_SIZE 32

/** format_count() - "950", "12.3k", "4.5M" */
const char *format_count(double count, char text[FORMAT_SIZE]);
/** format_duration() - "140 ms", "12.5 s", "4m 05s", "3h 02m", "2d 03h"; "-" when not known */
const char *format_duration(double seconds, char text[FORMAT_SIZE]);
/** format_loss() - four decimals, "8.92e+09" from ten thousand on, or "-" when not known */
const char *format_loss(double loss, char text[FORMAT_SIZE]);
/** format_time() - local "14:02:07" of a realtime */
const char *format_time(uint64_t unix_ns, char text[FORMAT_SIZE]);

/** format_moment() - local "2026-11-30 14:02:07 CET" of a realtime */
const char *format_moment(uint64_t unix_ns, char text[FORMAT_SIZE]);

/** format_date() - local "2026-11-30" of a realtime */
const char *format_date(uint64_t unix_ns, char text[FORMAT_SIZE]);

#define FORMAT_UNITS_SIZE 96
/**
 * format_units() - name the units [first, end) of a model with @unit_count units for users:
 * "embedding, layers 0-1", "layers 2 mlp-3" (a cut between attention and MLP), "layer 5, head"
 */
const char *format_units(unsigned first, unsigned end, unsigned unit_count,
                         char text[FORMAT_UNITS_SIZE]);

#define FORMAT_BAR_CELLS 20
#define FORMAT_BAR_SIZE  (3 * FORMAT_BAR_CELLS + 1)
/** format_bar() - draw @share (0 to 1) of a bar of FORMAT_BAR_CELLS cells, in eighths */
const char *format_bar(double share, char text[FORMAT_BAR_SIZE]);

/** format_quoted() - quote @text for a shell, in single quotes if needed; false: too long */
_Bool format_quoted(const char *text, char *ret_quoted, unsigned size);
