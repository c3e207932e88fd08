#include "worker/metrics/exact_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void exact_steps_done(struct exact_steps *steps)
{
    free(steps->lines);
    *steps = (struct exact_steps){0};
}

int exact_steps_add(struct exact_steps *steps, const struct exact *exact)
{
    if (steps->count == steps->capacity) {
        size_t capacity = MAX(steps->capacity * 2, (size_t)1024);
        struct exact *grown = realloc(steps->lines, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        steps->lines = grown;
        steps->capacity = capacity;
    }
    steps->lines[steps->count++] = *exact;
    return 0;
}

int exact_steps_read(struct exact_steps *steps, const struct bytes *text, bool strict,
                     size_t *ret_valid_bytes, struct error *error)
{
    const char *at = (const char *)text->data;
    size_t left = text->size_bytes;

    *ret_valid_bytes = 0;
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        struct exact exact;
        int status = !end     ? -EINVAL
                     : strict ? exact_line_parse(at, (size_t)(end - at), &exact, NULL)
                              : exact_line_scan(at, (size_t)(end - at), &exact);
        if (status != -ENOMEM && (status || exact.step <= exact_steps_last(steps)))
            return 0;
        if (!status)
            status = exact_steps_add(steps, &exact);
        if (status) /* the line itself may be valid */
            return error_set(error, -ENOMEM, "no memory to read the metrics of this node");
        left -= (size_t)(end + 1 - at);
        at = end + 1;
        *ret_valid_bytes = (size_t)(at - (const char *)text->data);
    }
    return 0;
}

void exact_steps_forget(struct exact_steps *steps, size_t count)
{
    memmove(steps->lines, steps->lines + count, (steps->count - count) * sizeof(*steps->lines));
    steps->count -= count;
}

uint64_t exact_steps_last(const struct exact_steps *steps)
{
    return steps->count ? steps->lines[steps->count - 1].step : 0;
}

static int compare_steps(const void *key, const void *entry)
{
    uint64_t step = *(const uint64_t *)key, other = ((const struct exact *)entry)->step;

    return step < other ? -1 : step > other;
}

const struct exact *exact_steps_find(const struct exact_steps *steps, uint64_t step)
{
    if (steps->count == 0) /* bsearch() must not get the NULL of an empty list */
        return NULL;
    return bsearch(&step, steps->lines, steps->count, sizeof(*steps->lines), compare_steps);
}
