#include "worker/metrics/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/line_rotation.h"
#include "base/log.h"
#include "worker/metrics/metrics_internal.h"
#include "worker/metrics/metrics_text.h"

#define WINDOW_BYTES                                                                               \
    ((size_t)32 << 10) /* bytes at the end of the file that are read and checked at open */
#define WINDOW_LINES ((size_t)16384) /* lines kept in memory */

void metrics_bound_memory(struct metrics *metrics)
{
    struct exact_steps *newest = &metrics->newest;

    if (newest->count > WINDOW_LINES)
        exact_steps_forget(newest,
                           MIN(newest->count / 2, newest->count - metrics->unwritten_count));
}

/* Read the lines of [@from, @whole) into memory. *ret_whole: the end of the last valid one. */
static int load_window(struct metrics *metrics, off_t from, off_t whole, off_t *ret_whole,
                       struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    size_t valid_bytes = 0;
    int status = line_file_read(&metrics->file, from, whole, &text, error);

    if (status)
        return status;
    const uint8_t *end = from > 0 ? memchr(text.data, '\n', text.size_bytes) : NULL;
    size_t skipped = end ? (size_t)(end + 1 - text.data) : 0;
    const struct bytes lines = {.data = text.data + skipped,
                                .size_bytes = text.size_bytes - skipped};
    if (from == 0 || end)
        status = exact_steps_read(&metrics->newest, &lines, true, &valid_bytes, error);
    *ret_whole = from + (off_t)(skipped + valid_bytes);
    if (from > 0 && metrics->newest.count == 0)
        *ret_whole = from; /* lines before the window may be valid */
    return status;
}

int metrics_load(struct metrics *metrics, struct error *error)
{
    off_t size = 0;
    int status = line_file_size(&metrics->file, &size, error);
    off_t whole = size;

    metrics->newest.count = 0;
    while (!status && whole > 0 && metrics->newest.count == 0)
        status =
            load_window(metrics, MAX(whole - (off_t)WINDOW_BYTES, (off_t)0), whole, &whole, error);
    if (status || whole == size)
        return status;
    status = line_file_cut(&metrics->file, whole);
    return status ? error_set(error, status, "cutting %s after its last whole line: %s",
                              metrics->file.path, strerror(-status))
                  : 0;
}

int metrics_open(const char *path, struct metrics **ret_metrics, struct error *error)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    int status;

    if (!metrics)
        return error_set(error, -ENOMEM, "no memory for metrics");
    metrics->file = (struct line_file){.path = strdup(path), .descriptor = -1};
    metrics->file_bytes_max = METRICS_FILE_MAX;
    status = metrics->file.path ? line_file_open(&metrics->file, error)
                                : error_set(error, -ENOMEM, "no memory for metrics");
    if (!status)
        status = metrics_load(metrics, error);
    if (status)
        metrics_close(metrics);
    else
        *ret_metrics = metrics;
    return status;
}

uint64_t metrics_last_step(const struct metrics *metrics)
{
    return exact_steps_last(&metrics->newest);
}

/* ---- appending ---- */

/* Find a line in memory or in the file; false: there is none, or it cannot be read. */
static bool find_step(const struct metrics *metrics, uint64_t step, struct exact *ret_exact)
{
    const struct exact_steps *newest = &metrics->newest;
    const struct exact *known = exact_steps_find(newest, step);

    if (known)
        *ret_exact = *known;
    if (known || newest->count == 0 || step > newest->lines[0].step)
        return known;
    return line_file_get(&metrics->file, step, ret_exact);
}

static int check_replay(const struct metrics *metrics, uint64_t step, const struct exact *now,
                        struct error *error)
{
    struct exact then;

    if (!find_step(metrics, step, &then) ||
        exact_line_same(&then, now)) /* no line: this node was away */
        return 0;
    return error_set(error, -EILSEQ,
                     "step %" PRIu64
                     " was replayed and came out different: loss %s then, %s now; norm %s "
                     "then, %s now; %u frozen layers then, %u now",
                     step, then.loss_bits, now->loss_bits, then.grad_norm_bits, now->grad_norm_bits,
                     then.frozen_layers, now->frozen_layers);
}

/* Begin a new file, because this one is too long. Keep as many lines as go to other nodes and into
 * checkpoints. After a failure, try again when as many new lines have been added. */
static int begin_anew(struct metrics *metrics, off_t size, struct error *error)
{
    int status = lines_rotate(metrics->file.path, METRICS_HISTORY_MAX, error);

    metrics->file_bytes_max = status ? size + (off_t)METRICS_HISTORY_MAX : METRICS_FILE_MAX;
    return status ? status : line_file_open(&metrics->file, error);
}

/* Keep refused lines up to the size of one file; then drop the older half. */
static void bound_unwritten(struct metrics *metrics)
{
    struct bytes *unwritten = &metrics->unwritten;
    size_t half = unwritten->size_bytes / 2, lost = 0;

    if (unwritten->size_bytes <= METRICS_UNWRITTEN_MAX)
        return;
    const uint8_t *end = memchr(unwritten->data + half, '\n', unwritten->size_bytes - half);
    size_t cut = (size_t)(end + 1 - unwritten->data);
    for (size_t i = 0; i < cut; i++)
        lost += unwritten->data[i] == '\n';
    log_warning("%s: %zu lines that the disk refused are lost here", metrics->file.path, lost);
    bytes_consume(unwritten, cut);
    metrics->unwritten_count -= lost;
    metrics_bound_memory(metrics);
}

/* Retry many lines once a second: each attempt writes as many as fit. */
static bool is_too_soon(const struct metrics *metrics)
{
    return metrics->unwritten.size_bytes > METRICS_UNWRITTEN_FEW &&
           clock_monotonic_ns() < metrics->refused_ns + NS_PER_SECOND;
}

/* Write whole lines only: a short write is cut off and retried with the next line. */
static int flush_lines(struct metrics *metrics, struct error *error)
{
    int status = line_file_ensure_open(&metrics->file, error);
    int descriptor = metrics->file.descriptor;

    if (status)
        return status;
    if (is_too_soon(metrics))
        return error_set(error, metrics->refused.code, "%s", metrics->refused.text);
    off_t end = lseek(descriptor, 0, SEEK_END);
    ssize_t written = write(descriptor, metrics->unwritten.data, metrics->unwritten.size_bytes);

    if (written == (ssize_t)metrics->unwritten.size_bytes) {
        metrics->unwritten.size_bytes = 0;
        metrics->unwritten_count = 0;
        metrics_bound_memory(metrics);
        return end + written > metrics->file_bytes_max ? begin_anew(metrics, end, error) : 0;
    }
    status = written < 0 ? -errno : -ENOSPC;
    int cut = line_file_cut(&metrics->file, end);
    if (cut)
        status = cut;
    metrics->refused_ns = clock_monotonic_ns();
    error_set(&metrics->refused, status, "writing %s: %s; the lines are kept and tried again",
              metrics->file.path, strerror(-status));
    return error_set(error, status, "%s", metrics->refused.text);
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    metrics->refused_ns = 0;
    if (metrics->unwritten.size_bytes && flush_lines(metrics, NULL))
        log_warning("%s: the lines that the disk refused are lost here", metrics->file.path);
    close_descriptor(&metrics->file.descriptor);
    bytes_done(&metrics->unwritten);
    exact_steps_done(&metrics->newest);
    free(metrics->file.path);
    free(metrics);
}

/* Return whether @line adds the value of the finished model. An earlier generation may have had no
 * time for it, and have written the last line without it. */
static bool completes_last(const struct metrics *metrics, const struct metrics_line *line)
{
    return line->final_evaluated && line->step == metrics_last_step(metrics);
}

int metrics_append(struct metrics *metrics, const struct metrics_line *line, struct error *error)
{
    const struct exact exact = metrics_line_exact(line);
    int replayed = line->step <= metrics_last_step(metrics)
                       ? check_replay(metrics, line->step, &exact, error)
                       : 0;
    int status = 0;

    if (!replayed && completes_last(metrics, line))
        status = metrics_rewind(metrics, line->step - 1, error);
    if (line->step <= metrics_last_step(metrics)) /* after rewinding: the file cannot be cut */
        return replayed ? replayed : status;
    size_t size_before = metrics->unwritten.size_bytes;
    status = metrics_line_format(line, &metrics->unwritten);
    if (!status)
        status = exact_steps_add(&metrics->newest, &exact);
    if (status) { /* a line in the file but not in memory would pass for the next one */
        metrics->unwritten.size_bytes = size_before;
        return error_set(error, status, "no memory for the metrics of step %" PRIu64, line->step);
    }
    metrics->unwritten_count++;
    bound_unwritten(metrics);
    return flush_lines(metrics, error);
}

/* ---- reading ---- */

int metrics_read_from(const struct metrics *metrics, off_t offset, struct bytes *ret_text,
                      struct error *error)
{
    struct bytes text = {0};
    off_t size = 0;
    int status = line_file_size(&metrics->file, &size, error);

    if (!status && size > offset)
        status = line_file_read(&metrics->file, offset, size, &text, error);
    if (!status && bytes_append(&text, metrics->unwritten.data, metrics->unwritten.size_bytes))
        status = error_set(error, -ENOMEM, "no memory for the history of %s", metrics->file.path);
    if (status)
        bytes_done(&text);
    else
        *ret_text = text;
    return status;
}

int metrics_history(const struct metrics *metrics, uint64_t step, struct bytes *ret_text,
                    struct error *error)
{
    struct bytes text = {0};
    off_t size = 0, oldest = 0;
    int status = line_file_size(&metrics->file, &size, error);

    if (!status && size > (off_t)METRICS_HISTORY_MAX)
        status = line_file_begin_after(&metrics->file, size - (off_t)METRICS_HISTORY_MAX, &oldest);
    if (!status)
        status = metrics_read_from(metrics, oldest, &text, error);
    if (status)
        return status;
    text.size_bytes = metrics_text_cut(text.data, text.size_bytes, step);
    *ret_text = text;
    return 0;
}

/* ---- going back ---- */

int metrics_rewind(struct metrics *metrics, uint64_t step, struct error *error)
{
    off_t offset = 0;

    if (metrics_last_step(metrics) <= step)
        return 0;
    int status = line_file_ensure_open(&metrics->file, error);
    if (!status)
        status = line_file_find(&metrics->file, step + 1, &offset, error);
    if (status)
        return status;
    status = line_file_cut(&metrics->file, offset);
    if (status)
        return error_set(error, status, "cutting %s after step %" PRIu64 ": %s", metrics->file.path,
                         step, strerror(-status));
    metrics->unwritten.size_bytes =
        metrics_text_cut(metrics->unwritten.data, metrics->unwritten.size_bytes, step);
    for (; metrics->newest.count > 0 && metrics_last_step(metrics) > step; metrics->newest.count--)
        metrics->unwritten_count -= metrics->unwritten_count > 0;
    if (metrics->newest.count == 0)
        status = metrics_load(metrics, error);
    return status || metrics->unwritten.size_bytes == 0 ? status : flush_lines(metrics, error);
}
