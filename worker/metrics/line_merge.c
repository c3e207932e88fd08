#include "worker/metrics/line_merge.h"

#include <errno.h>

#include "worker/metrics/metrics_text.h"

static bool corrects(const struct exact *theirs, const struct exact *mine)
{
    return !exact_line_same(theirs, mine) && theirs->generation > mine->generation;
}

bool line_merge_learns(const struct exact_steps *mine, const struct exact_steps *theirs)
{
    for (size_t i = 0; i < theirs->count; i++) {
        const struct exact *known = exact_steps_find(mine, theirs->lines[i].step);
        if (!known || corrects(&theirs->lines[i], known))
            return true;
    }
    return false;
}

/* The position of one side in its lines. */
struct cursor {
    const struct merge_side *side;
    size_t line, at;
};

static const struct exact *current(const struct cursor *cursor)
{
    return cursor->line < cursor->side->steps->count ? &cursor->side->steps->lines[cursor->line]
                                                     : NULL;
}

static int advance(struct cursor *cursor, struct bytes *ret_line)
{
    cursor->line++;
    return metrics_text_next(cursor->side->text, &cursor->at, ret_line) ? 0 : -EBADMSG;
}

int line_merge(const struct merge_side *mine, const struct merge_side *theirs, struct bytes *into)
{
    struct cursor my = {.side = mine}, their = {.side = theirs};
    int status = 0;

    while (!status && (current(&my) || current(&their))) {
        const struct exact *a = current(&my), *b = current(&their);
        bool same = a && b && a->step == b->step;
        bool take_mine = same ? !corrects(b, a) : !b || (a && a->step < b->step);
        struct bytes line;
        if (same)
            status = advance(take_mine ? &their : &my, &line);
        if (!status)
            status = advance(take_mine ? &my : &their, &line);
        if (!status)
            status = bytes_append(into, line.data, line.size_bytes);
    }
    return status;
}
