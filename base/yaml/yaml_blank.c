#include "base/yaml/yaml_blank.h"

#include <string.h>

static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? (size_t)(newline - at) : (size_t)(end - at);
}

static size_t indentation(const char *at, size_t length)
{
    size_t depth = 0;
    while (depth < length && (at[depth] == ' ' || at[depth] == '\t'))
        depth++;
    return depth;
}

static bool continues(const char *at, size_t length, size_t depth_above)
{
    size_t depth = indentation(at, length);
    return depth < length && (depth > depth_above || at[depth] == ']' || at[depth] == '}');
}

bool yaml_blank_line(char *text, size_t size_bytes, size_t line)
{
    char *at = text, *end = text + size_bytes;
    for (; line > 1 && at < end; line--)
        at += line_length(at, end) + 1;
    if (at >= end)
        return false;
    size_t length = line_length(at, end), depth = indentation(at, length);
    bool had_text = depth < length;
    do {
        memset(at, ' ', length);
        at += length + 1;
        length = at < end ? line_length(at, end) : 0;
    } while (length > 0 && continues(at, length, depth));
    return had_text;
}
