#include "worker/metrics/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "worker/metrics/line_merge.h"
#include "worker/metrics/metrics_internal.h"

/*
 * Replace the end of the file from @offset on, durably; @text includes the lines that are not on
 * disk yet. Afterwards the steps in memory are those of @text. If the file was not open, it is open
 * afterwards for the next line.
 */
static int replace_end(struct metrics *metrics, off_t offset, const struct bytes *text,
                       struct error *error)
{
    CLEANUP(exact_steps_done) struct exact_steps merged = {0};
    size_t valid_bytes;
    int status = exact_steps_read(&merged, text, true, &valid_bytes, error);

    if (!status)
        status = line_file_replace(&metrics->file, offset, INT64_MAX, text, error);
    if (status)
        return status;
    exact_steps_done(&metrics->newest);
    metrics->newest = merged;
    merged = (struct exact_steps){0};
    metrics->unwritten.size_bytes = 0;
    metrics->unwritten_count = 0;
    return line_file_open(&metrics->file, error);
}

/* Lines after @end are copied as bytes: they may belong to millions of steps. */
static int replace_middle(struct metrics *metrics, off_t offset, off_t end,
                          const struct bytes *text, struct error *error)
{
    int status = line_file_replace(&metrics->file, offset, end, text, error);

    if (!status)
        status = line_file_open(&metrics->file, error);
    return status ? status : metrics_load(metrics, error);
}

/* Read lines of another node, all of which must be valid. -EBADMSG */
static int read_foreign(const struct bytes *text, bool strict, struct exact_steps *ret_steps,
                        struct error *error)
{
    size_t valid_bytes;
    int status = exact_steps_read(ret_steps, text, strict, &valid_bytes, error);

    if (!status && valid_bytes != text->size_bytes)
        status = error_set(error, -EBADMSG,
                           "metrics received from another node are damaged after step %" PRIu64,
                           exact_steps_last(ret_steps));
    return status;
}

/* Parse lines that were only scanned, before they become part of the file. -EBADMSG */
static int check_lines(const struct bytes *text, struct error *error)
{
    CLEANUP(exact_steps_done) struct exact_steps parsed = {0};

    return read_foreign(text, true, &parsed, error);
}

/* Append the @fresh lines of @theirs after the last line of the file, durably. */
static int append_lines(struct metrics *metrics, const struct exact_steps *theirs,
                        const struct bytes *fresh, struct error *error)
{
    struct line_file *file = &metrics->file;
    off_t size = 0;
    int status = line_file_size(file, &size, error);

    if (status)
        return status;
    status = line_file_write(file, fresh);
    for (size_t i = 0; !status && i < theirs->count; i++)
        if (theirs->lines[i].step > metrics_last_step(metrics))
            status = exact_steps_add(&metrics->newest, &theirs->lines[i]);
    metrics_bound_memory(metrics);
    if (!status)
        return 0;
    int cut = line_file_cut(file, size);
    if (cut)
        log_warning("cutting %s: %s", file->path, strerror(-cut));
    return error_set(error, status, "writing %s: %s", file->path, strerror(-status));
}

/*
 * Take the lines of @theirs without a merge, which is the common case: the file has the same bytes
 * from some step on, because they were once copied from this node, or has none because this node
 * was away. Return: 1: the lines are in the file; 0: a merge is needed
 */
static int take_as_they_are(struct metrics *metrics, const struct merge_side *theirs, off_t offset,
                            struct error *error)
{
    CLEANUP(bytes_done) struct bytes mine = {0};
    const struct bytes *text = theirs->text;
    off_t after = 0, size = 0;
    int status = line_file_find(&metrics->file, exact_steps_last(theirs->steps) + 1, &after, error);

    if (!status)
        status = line_file_size(&metrics->file, &size, error);
    if (status || after - offset > (off_t)text->size_bytes || metrics->unwritten_count > 0)
        return status;
    status = after > offset ? line_file_read(&metrics->file, offset, after, &mine, error) : 0;
    if (status || (mine.size_bytes > 0 && memcmp(mine.data, text->data, mine.size_bytes)))
        return status;
    const struct bytes fresh = {.data = text->data + mine.size_bytes,
                                .size_bytes = text->size_bytes - mine.size_bytes};
    if (fresh.size_bytes == 0)
        return 1;
    if (after < size) /* they precede some lines of this node */
        return 0;
    status = check_lines(&fresh, error);
    if (!status)
        status = append_lines(metrics, theirs->steps, &fresh, error);
    return status ? status : 1;
}

/* Read the lines of this node that lines up to @last may change. *ret_end: their end in the file,
 * or INT64_MAX: to the end of the file, with the lines that are not on disk yet. */
static int read_overlap(const struct metrics *metrics, uint64_t last, off_t offset,
                        struct bytes *ret_text, off_t *ret_end, struct error *error)
{
    off_t end = 0, size = 0;

    *ret_end = INT64_MAX;
    if (!line_file_is_open(&metrics->file) || metrics->unwritten_count > 0)
        return metrics_read_from(metrics, offset, ret_text, error);
    int status = line_file_find(&metrics->file, last + 1, &end, error);
    if (!status)
        status = line_file_size(&metrics->file, &size, error);
    if (!status && end < size)
        *ret_end = end;
    return status ? status : line_file_read(&metrics->file, offset, end, ret_text, error);
}

/* Merge the lines of @theirs with this node's from @offset on, at most as many as a history has. */
static int merge_into_file(struct metrics *metrics, const struct merge_side *theirs, off_t offset,
                           struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0}, merged = {0};
    CLEANUP(exact_steps_done) struct exact_steps mine = {0};
    size_t valid_bytes;
    off_t end;
    int status = read_overlap(metrics, exact_steps_last(theirs->steps), offset, &text, &end, error);

    if (!status)
        status = exact_steps_read(&mine, &text, true, &valid_bytes, error);
    if (status || !line_merge_learns(&mine, theirs->steps))
        return status;
    status = line_merge(&(struct merge_side){&mine, &text}, theirs, &merged);
    if (status)
        return error_set(error, status, "merging metrics into %s: %s", metrics->file.path,
                         strerror(-status));
    return end == INT64_MAX ? replace_end(metrics, offset, &merged, error)
                            : replace_middle(metrics, offset, end, &merged, error);
}

static int adopt_lines(struct metrics *metrics, const struct merge_side *theirs,
                       struct error *error)
{
    off_t offset = 0;
    int status = line_file_is_open(&metrics->file)
                     ? line_file_find(&metrics->file, theirs->steps->lines[0].step, &offset, error)
                     : line_file_open(&metrics->file, error);

    if (!status)
        status = take_as_they_are(metrics, theirs, offset, error);
    if (!status)
        status = check_lines(theirs->text, error);
    if (status)
        return MIN(status, 0);
    return merge_into_file(metrics, theirs, offset, error);
}

int metrics_adopt(struct metrics *metrics, const void *data, size_t size_bytes, struct error *error)
{
    CLEANUP(exact_steps_done) struct exact_steps theirs = {0};
    const struct bytes text = {.data = (uint8_t *)(uintptr_t)data, .size_bytes = size_bytes};
    int status = read_foreign(&text, false, &theirs, error);

    if (status || theirs.count == 0)
        return status;
    return adopt_lines(metrics, &(struct merge_side){&theirs, &text}, error);
}
