#include "base/sorted_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIKELY_BYTES ((size_t)1024) /* typical length of a line */

int sorted_lines_read(int descriptor, off_t from, off_t end, char **ret_data)
{
    size_t size = (size_t)(end - from), done = 0;
    char *data = malloc(size + 1);
    if (!data)
        return -ENOMEM;
    while (done < size) {
        ssize_t n = pread(descriptor, data + done, size - done, from + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int status = n < 0 ? -errno : -EIO;
            free(data);
            return status;
        }
        done += (size_t)n;
    }
    data[size] = '\0';
    *ret_data = data;
    return 0;
}

int sorted_lines_at(const struct sorted_lines *lines, off_t from, off_t before, off_t size,
                    struct sorted_line *ret_line)
{
    off_t first = from > 0 ? from - 1 : 0; /* a line begins after a newline */
    for (size_t room = LIKELY_BYTES; room <= SORTED_LINE_BYTES_MAX; room *= 4) {
        AUTO_FREE char *data = NULL;
        off_t until = MIN(size, first + (off_t)room);
        int status = sorted_lines_read(lines->descriptor, first, until, &data);
        if (status < 0)
            return status;
        assert(data);
        const char *end = data + (until - first);
        const char *begin = from > 0 ? memchr(data, '\n', (size_t)(end - data)) : data;
        if (begin && from > 0)
            begin++;
        if (begin && (begin == end ? until == size : first + (begin - data) >= before))
            return -ENOENT;
        const char *stop = begin ? memchr(begin, '\n', (size_t)(end - begin)) : NULL;
        if (!stop && until == size)
            return begin ? -EBADMSG : -ENOENT;
        if (!stop)
            continue;
        ret_line->begin = first + (begin - data);
        ret_line->end = first + (stop + 1 - data);
        status = lines->number_of(begin, (size_t)(stop - begin), &ret_line->number);
        return status < 0 && status != -ENOMEM ? -EBADMSG : status;
    }
    return -EBADMSG;
}

int sorted_lines_find(const struct sorted_lines *lines, uint64_t number, off_t size,
                      off_t *ret_offset)
{
    off_t low = 0, high = size; /* lines before low are smaller, lines from high on are not */
    while (low < high) {
        struct sorted_line line;
        off_t middle = low + (high - low) / 2;
        int status = sorted_lines_at(lines, middle, high, size, &line);
        if (status < 0 && status != -ENOENT)
            return status;
        if (status == 0 && line.number < number)
            low = line.end;
        else
            high = middle;
    }
    *ret_offset = low;
    return 0;
}
