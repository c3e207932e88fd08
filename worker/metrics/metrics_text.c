#include "worker/metrics/metrics_text.h"

#include <string.h>

#include "worker/metrics/exact_line.h"

size_t metrics_text_cut(const void *text, size_t size_bytes, uint64_t step)
{
    const char *begin = text;

    while (size_bytes > 0) {
        const char *end = memrchr(begin, '\n', size_bytes);
        const char *before = end ? memrchr(begin, '\n', (size_t)(end - begin)) : NULL;
        const char *line = before ? before + 1 : begin;
        struct exact exact;
        if (!end)
            return 0;
        if (!exact_line_parse(line, (size_t)(end - line), &exact, NULL) && exact.step <= step)
            return (size_t)(end + 1 - begin);
        size_bytes = (size_t)(line - begin);
    }
    return 0;
}

uint64_t metrics_text_newest(const void *text, size_t size_bytes)
{
    size_t whole = metrics_text_cut(text, size_bytes, UINT64_MAX);
    const char *begin = text, *end = begin + whole;
    const char *before = whole > 1 ? memrchr(begin, '\n', whole - 1) : NULL;
    const char *line = before ? before + 1 : begin;
    struct exact exact;

    return whole > 0 && !exact_line_parse(line, (size_t)(end - 1 - line), &exact, NULL) ? exact.step
                                                                                        : 0;
}

bool metrics_text_next(const struct bytes *text, size_t *at, struct bytes *ret_line)
{
    uint8_t *begin = text->data + *at;
    const uint8_t *end =
        *at < text->size_bytes ? memchr(begin, '\n', text->size_bytes - *at) : NULL;

    if (!end)
        return false;
    *ret_line = (struct bytes){.data = begin, .size_bytes = (size_t)(end + 1 - begin)};
    *at += ret_line->size_bytes;
    return true;
}
