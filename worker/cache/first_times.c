#include "worker/cache/first_times.h"

#include <stdlib.h>
#include <string.h>

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

double first_times_median_ms(const struct first_times *times)
{
    uint64_t sorted[FIRST_TIMES];

    memcpy(sorted, times->ns, sizeof(sorted));
    qsort(sorted, FIRST_TIMES, sizeof(*sorted), compare_times);
    return (double)sorted[FIRST_TIMES / 2] / 1e6;
}
