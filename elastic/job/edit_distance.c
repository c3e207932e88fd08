#include "elastic/job/edit_distance.h"

#include <string.h>

#include "base/compiler.h"

unsigned edit_distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > EDIT_DISTANCE_WORD_MAX || columns > EDIT_DISTANCE_WORD_MAX)
        return EDIT_DISTANCE_WORD_MAX;
    unsigned distance[EDIT_DISTANCE_WORD_MAX + 1][EDIT_DISTANCE_WORD_MAX + 1];
    for (unsigned i = 0; i <= rows; i++)
        distance[i][0] = i;
    for (unsigned j = 0; j <= columns; j++)
        distance[0][j] = j;
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j <= columns; j++) {
            unsigned change = distance[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            unsigned skip = MIN(distance[i - 1][j], distance[i][j - 1]) + 1;
            distance[i][j] = MIN(change, skip);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                distance[i][j] = MIN(distance[i][j], distance[i - 2][j - 2] + 1);
        }
    return distance[rows][columns];
}

_Bool edit_distance_is_close(const char *written, const char *known)
{
    size_t length = MAX(strlen(written), strlen(known));
    return edit_distance(written, known) <= MAX(length / 3, (size_t)1);
}
