/* How far two words are apart, for "did you mean". */
#pragma once

#define NEAREST_WORD_MAX 64

/**
 * nearest_distance() - letters to insert, delete, replace, or neighbours to swap
 *
 * The "optimal string alignment" distance of Damerau (CACM 1964). Words longer than
 * NEAREST_WORD_MAX are as far apart as can be: NEAREST_WORD_MAX.
 */
unsigned nearest_distance(const char *a, const char *b);

/** nearest_is_close() - near enough that one was probably meant for the other */
_Bool nearest_is_close(const char *written, const char *known);
