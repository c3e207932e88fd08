/* Edit distance of two words, for "did you mean". */
#pragma once

#define EDIT_DISTANCE_WORD_MAX 64

/**
 * edit_distance() - return the number of letters to insert, delete or replace, or neighbours to
 * swap
 *
 * The "optimal string alignment" distance of Damerau (CACM 1964). For words longer than
 * EDIT_DISTANCE_WORD_MAX the result is EDIT_DISTANCE_WORD_MAX.
 */
unsigned edit_distance(const char *a, const char *b);

/** edit_distance_is_close() - return whether @written is probably a misspelling of @known */
_Bool edit_distance_is_close(const char *written, const char *known);
