/*
 * Describe a wrong result in one message: the number of wrong elements, their positions, their
 * distance, and their pattern. A machine with a GPU is lent by the minute, so the message must
 * suffice to correct the failure.
 *
 * The pattern is that of stretches, runs of wrong elements: "270 stretches, the first of 14, the
 * second begins 284 further" are the last 14 columns of rows of 284.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct differences {
    const char *name; /* of the result, as the test calls it; borrowed */
    size_t count;     /* of its elements */
    size_t checked, wrong, not_numbers;
    size_t first, last, worst;                          /* elements */
    double first_values[2], worst_values[2], worst_off; /* the actual value, and the wanted value */
    size_t stretches, first_stretch, second_begins;     /* elements */
    bool in_stretch;
};

/** differences_add() - Add element @index, in ascending order, with value @actual; @off: its
 * distance from @wanted, in any unit; 0: the element is right */
void differences_add(struct differences *differences, size_t index, double actual, double wanted,
                     double off);

/** differences_text() - Write the whole message; @rule is the condition for a right element, as "to
 * be within 3e-2" */
void differences_text(const struct differences *differences, const char *rule, char *ret_text,
                      size_t size);

/** differences_judge() - backend_fail() with the text when anything is wrong */
void differences_judge(const struct differences *differences, const char *rule);
