/* How far two words are apart, for "did you mean". */
#pragma once

#define EDIT_DISTANCE_WORD_MAX 64

/**
 * edit_distance() - letters to insert, delete, replace, or neighbours to swap
 *
 * The "optimal string alignment" distance of Damerau (CACM 1964). Words longer than
 * EDIT_DISTANCE_WORD_MAX are as far apart as can be: EDIT_DISTANCE_WORD_MAX.
 */
unsigned edit_distance(const char *a, const char *b);

/** edit_distance_is_close() - near enough that one was probably meant for the other */
_Bool edit_distance_is_close(const char *written, const char *known);
