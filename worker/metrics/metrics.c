#include "worker/metrics/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sorted_lines.h"
#include "worker/metrics/exact_line.h"

#define WINDOW_BYTES                                                                               \
    ((size_t)256 << 10) /* bytes at the end of the file that are read and checked at open */
#define WINDOW_LINES ((size_t)16384) /* kept in memory; older lines are found in the file */

struct metrics {
    char *path;
    int descriptor;
    struct exact *steps; /* the newest lines, ascending; a node that was away has gaps */
    size_t count, capacity;
    struct bytes unwritten; /* lines that could not be written, on a full disk */
    size_t unwritten_count; /* number of those lines; all are among `steps` */
};

/* Drop the oldest steps, which stay in the file, so that memory does not grow with the run. */
static void forget_oldest(struct metrics *metrics)
{
    size_t dropped = MIN(metrics->count / 2, metrics->count - metrics->unwritten_count);

    memmove(metrics->steps, metrics->steps + dropped,
            (metrics->count - dropped) * sizeof(*metrics->steps));
    metrics->count -= dropped;
}

static int remember(struct metrics *metrics, const struct exact *exact)
{
    if (metrics->count == metrics->capacity) {
        size_t capacity = MAX(metrics->capacity * 2, (size_t)1024);
        struct exact *grown = realloc(metrics->steps, capacity * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        metrics->steps = grown;
        metrics->capacity = capacity;
    }
    metrics->steps[metrics->count++] = *exact;
    return 0;
}

/* Read lines in step order; stop at the first that is cut off or out of order. -ENOMEM */
static int load_lines(struct metrics *metrics, const struct bytes *text, bool strict,
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
        if (status != -ENOMEM && (status || exact.step <= metrics_last_step(metrics)))
            return 0;
        if (!status)
            status = remember(metrics, &exact);
        if (status) /* the line itself may be good */
            return error_set(error, -ENOMEM, "no memory to read the metrics of this node");
        left -= (size_t)(end + 1 - at);
        at = end + 1;
        *ret_valid_bytes = (size_t)(at - (const char *)text->data);
    }
    return 0;
}

/* ---- the file, whose lines are in the order of their steps ---- */

static int read_range(const struct metrics *metrics, off_t from, off_t end, struct bytes *ret_text,
                      struct error *error)
{
    char *data;
    int status = sorted_lines_read(metrics->descriptor, from, end, &data);

    if (status)
        return error_set(error, status, "reading %s: %s", metrics->path, strerror(-status));
    *ret_text = (struct bytes){.data = (uint8_t *)data,
                               .size_bytes = (size_t)(end - from),
                               .capacity_bytes = (size_t)(end - from) + 1};
    return 0;
}

static int file_size(const struct metrics *metrics, off_t *ret_size, struct error *error)
{
    struct stat found;

    if (fstat(metrics->descriptor, &found))
        return error_set(error, -errno, "reading %s: %s", metrics->path, strerror(errno));
    *ret_size = found.st_size;
    return 0;
}

static int step_of_line(const char *line, size_t size_bytes, uint64_t *ret_step)
{
    struct exact exact = {0};
    int status = exact_line_parse(line, size_bytes, &exact, NULL);

    *ret_step = exact.step;
    return status;
}

static struct sorted_lines lines_of(const struct metrics *metrics)
{
    return (struct sorted_lines){.descriptor = metrics->descriptor, .number_of = step_of_line};
}

/* Return the offset of the first line of @step or later. -EBADMSG: invalid line on the way */
static int find_offset(const struct metrics *metrics, uint64_t step, off_t *ret_offset,
                       struct error *error)
{
    const struct sorted_lines lines = lines_of(metrics);
    off_t size = 0;
    int status = file_size(metrics, &size, error);

    if (status)
        return status;
    status = sorted_lines_find(&lines, step, size, ret_offset);
    if (status == -EBADMSG)
        return error_set(error, status, "%s is damaged before step %" PRIu64, metrics->path, step);
    return status ? error_set(error, status, "reading %s: %s", metrics->path, strerror(-status))
                  : 0;
}

/* Load and check the last lines of the file; cut the file off before the first invalid one. */
static int load_file(struct metrics *metrics, struct error *error)
{
    off_t size = 0, whole;
    int status = file_size(metrics, &size, error);

    metrics->count = 0;
    for (whole = size; !status && whole > 0 && metrics->count == 0;) {
        CLEANUP(bytes_done) struct bytes text = {0};
        off_t from = MAX(whole - (off_t)WINDOW_BYTES, (off_t)0);
        size_t valid_bytes = 0;
        status = read_range(metrics, from, whole, &text, error);
        if (status)
            break;
        const uint8_t *end = from > 0 ? memchr(text.data, '\n', text.size_bytes) : NULL;
        size_t skipped = end ? (size_t)(end + 1 - text.data) : 0;
        const struct bytes lines = {.data = text.data + skipped,
                                    .size_bytes = text.size_bytes - skipped};
        if (from == 0 || end)
            status = load_lines(metrics, &lines, true, &valid_bytes, error);
        whole = from + (off_t)(skipped + valid_bytes);
        if (from > 0 && metrics->count == 0)
            whole = from; /* lines before the window may be good */
    }
    if (!status && whole != size && ftruncate(metrics->descriptor, whole))
        status = error_set(error, -errno, "cutting %s after its last whole line: %s", metrics->path,
                           strerror(errno));
    return status;
}

/* Open by name, so that a file that has replaced the old one is written from now on. */
static int open_file(struct metrics *metrics, struct error *error)
{
    close_descriptor(&metrics->descriptor);
    metrics->descriptor = open(metrics->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return metrics->descriptor >= 0
               ? 0
               : error_set(error, -errno, "opening %s: %s", metrics->path, strerror(errno));
}

int metrics_open(const char *path, struct metrics **ret_metrics, struct error *error)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    int status;

    if (!metrics)
        return error_set(error, -ENOMEM, "no memory for metrics");
    metrics->descriptor = -1;
    metrics->path = strdup(path);
    status = metrics->path ? open_file(metrics, error)
                           : error_set(error, -ENOMEM, "no memory for metrics");
    if (!status)
        status = load_file(metrics, error);
    if (status)
        metrics_close(metrics);
    else
        *ret_metrics = metrics;
    return status;
}

uint64_t metrics_last_step(const struct metrics *metrics)
{
    return metrics->count ? metrics->steps[metrics->count - 1].step : 0;
}

static int compare_steps(const void *key, const void *entry)
{
    uint64_t step = *(const uint64_t *)key, other = ((const struct exact *)entry)->step;

    return step < other ? -1 : step > other;
}

static const struct exact *find_known(const struct metrics *metrics, uint64_t step)
{
    if (metrics->count == 0) /* bsearch() must not get the NULL of an empty list */
        return NULL;
    return bsearch(&step, metrics->steps, metrics->count, sizeof(*metrics->steps), compare_steps);
}

/* Find a line in memory or in the file; false: there is none, or it cannot be read. */
static bool find_step(const struct metrics *metrics, uint64_t step, struct exact *ret_exact)
{
    const struct exact *known = find_known(metrics, step);
    AUTO_FREE char *text = NULL;
    struct sorted_line line;
    off_t offset = 0, size = 0;

    if (known)
        *ret_exact = *known;
    if (known || metrics->descriptor < 0 || metrics->count == 0 || step > metrics->steps[0].step)
        return known;
    const struct sorted_lines lines = lines_of(metrics);
    if (find_offset(metrics, step, &offset, NULL) || file_size(metrics, &size, NULL) ||
        sorted_lines_at(&lines, offset, size, size, &line) || line.number != step ||
        sorted_lines_read(metrics->descriptor, line.begin, line.end, &text))
        return false;
    return !exact_line_parse(text, (size_t)(line.end - line.begin), ret_exact, NULL);
}

static bool is_same(const struct exact *one, const struct exact *other)
{
    return !strcmp(one->loss_bits, other->loss_bits) &&
           !strcmp(one->grad_norm_bits, other->grad_norm_bits) &&
           one->frozen_layers == other->frozen_layers;
}

static int check_replay(const struct metrics *metrics, uint64_t step, const struct exact *now,
                        struct error *error)
{
    struct exact then;

    if (!find_step(metrics, step, &then) || is_same(&then, now)) /* no line: this node was away */
        return 0;
    return error_set(error, -EILSEQ,
                     "step %" PRIu64
                     " was replayed and came out different: loss %s then, %s now; norm %s "
                     "then, %s now; %u frozen layers then, %u now",
                     step, then.loss_bits, now->loss_bits, then.grad_norm_bits, now->grad_norm_bits,
                     then.frozen_layers, now->frozen_layers);
}

/* JSON has no NaN: a diverged loss is null beside its exact bits. */
static const char *number_text(double value, char *text, size_t size)
{
    if (isfinite(value))
        snprintf(text, size, "%.9g", value);
    else
        snprintf(text, size, "null");
    return text;
}

/* "slowest": for each stage its slowest worker, and the lane times of it and of the fastest. */
static int append_slowest(const struct metrics_line *line, struct bytes *into)
{
    const struct plan *plan = line->plan;
    int status = bytes_append_format(into, ",\"slowest\":[");

    for (unsigned stage = 0; !status && stage < plan->layout.stage_count; stage++) {
        const struct straggler_stage *slowest = &line->slowest[stage];
        const struct plan_worker *worker = &plan->layout.workers[slowest->rank];
        status = bytes_append_format(
            into, "%s{\"worker\":\"%s/%u\",\"lane_ms\":%.3f,\"fastest_ms\":%.3f}", stage ? "," : "",
            worker->node, worker->slot, (double)slowest->lane_ns / 1e6,
            (double)slowest->fastest_ns / 1e6);
    }
    return status ? status : bytes_append_format(into, "]");
}

static int append_final(double loss, struct bytes *into)
{
    char text[32], bits[BITS64_TEXT_SIZE];

    bits64_text(loss, bits);
    return bytes_append_format(into, ",\"final_val_loss\":%s,\"final_val_loss_bits\":\"%s\"",
                               number_text(loss, text, sizeof(text)), bits);
}

static int format_line(const struct metrics_line *line, const struct exact *exact,
                       struct bytes *into)
{
    char loss[32], norm[32], val_loss[32], val_bits[BITS64_TEXT_SIZE], evaluated[96] = "";
    size_t size_before = into->size_bytes;

    if (line->evaluated) {
        bits64_text(line->val_loss, val_bits);
        snprintf(evaluated, sizeof(evaluated), ",\"val_loss\":%s,\"val_loss_bits\":\"%s\"",
                 number_text(line->val_loss, val_loss, sizeof(val_loss)), val_bits);
    }
    int status = bytes_append_format(
        into,
        "{\"job\":\"%s\",\"step\":%" PRIu64 ",\"loss\":%s,\"loss_bits\":\"%s\",\"grad_norm\":%s,"
        "\"grad_norm_bits\":\"%s\",\"lr\":%.9g,\"frozen_layers\":%u,\"generation\":%" PRIu64
        ",\"stages\":%u,\"replicas\":%u,\"workers\":%u,\"tokens\":%" PRIu64
        ",\"step_ms\":%.3f,\"unix_ns\":%" PRIu64 "%s",
        line->job, line->step, number_text(line->loss, loss, sizeof(loss)), exact->loss_bits,
        number_text(line->grad_norm, norm, sizeof(norm)), exact->grad_norm_bits, line->lr,
        line->frozen_layers, line->generation, line->stages, line->replicas, line->workers,
        line->tokens, line->step_ms, line->unix_ns, evaluated);
    if (!status && line->final_evaluated)
        status = append_final(line->final_loss, into);
    if (!status && line->masked)
        status = bytes_append_format(into, ",\"counted\":%" PRIu64, line->counted);
    if (!status && line->slowest)
        status = append_slowest(line, into);
    if (!status)
        status = bytes_append_format(into, "}\n");
    if (status) /* remove the partial text */
        into->size_bytes = size_before;
    return status;
}

/* Write whole lines only: a short write is cut off and retried with the next line. */
static int flush_lines(struct metrics *metrics, struct error *error)
{
    int status = metrics->descriptor < 0 ? open_file(metrics, error) : 0;

    if (status)
        return status;
    off_t end = lseek(metrics->descriptor, 0, SEEK_END);
    ssize_t written =
        write(metrics->descriptor, metrics->unwritten.data, metrics->unwritten.size_bytes);

    if (written == (ssize_t)metrics->unwritten.size_bytes) {
        metrics->unwritten.size_bytes = 0;
        metrics->unwritten_count = 0;
        if (metrics->count > WINDOW_LINES)
            forget_oldest(metrics);
        return 0;
    }
    status = written < 0 ? -errno : -ENOSPC;
    if (ftruncate(metrics->descriptor, end))
        status = -errno;
    return error_set(error, status, "writing %s: %s; the lines are kept and tried again",
                     metrics->path, strerror(-status));
}

void metrics_close(struct metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->unwritten.size_bytes && flush_lines(metrics, NULL))
        log_warning("%s: the lines that the disk refused are lost here", metrics->path);
    if (metrics->descriptor >= 0)
        close(metrics->descriptor);
    bytes_done(&metrics->unwritten);
    free(metrics->steps);
    free(metrics->path);
    free(metrics);
}

int metrics_append(struct metrics *metrics, const struct metrics_line *line, struct error *error)
{
    struct exact exact = {
        .step = line->step, .frozen_layers = line->frozen_layers, .generation = line->generation};

    bits64_text(line->loss, exact.loss_bits);
    bits64_text(line->grad_norm, exact.grad_norm_bits);
    if (line->step <= metrics_last_step(metrics))
        return check_replay(metrics, line->step, &exact, error);
    size_t size_before = metrics->unwritten.size_bytes;
    int status = format_line(line, &exact, &metrics->unwritten);
    if (!status)
        status = remember(metrics, &exact);
    if (status) { /* a line in the file but not in memory would be taken for the next one */
        metrics->unwritten.size_bytes = size_before;
        return error_set(error, status, "no memory for the metrics of step %" PRIu64, line->step);
    }
    metrics->unwritten_count++;
    return flush_lines(metrics, error);
}

/* Read the file from @offset on, and the lines that are not on disk yet. */
static int read_lines(const struct metrics *metrics, off_t offset, struct bytes *ret_text,
                      struct error *error)
{
    struct bytes text = {0};
    off_t size = 0;
    int status = metrics->descriptor < 0 ? 0 : file_size(metrics, &size, error);

    if (!status && size > offset)
        status = read_range(metrics, offset, size, &text, error);
    if (!status && bytes_append(&text, metrics->unwritten.data, metrics->unwritten.size_bytes))
        status = error_set(error, -ENOMEM, "no memory for the history of %s", metrics->path);
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
    const struct sorted_lines lines = lines_of(metrics);
    struct sorted_line oldest = {0};
    off_t size = 0, from;
    int status = metrics->descriptor < 0 ? 0 : file_size(metrics, &size, error);

    from = MAX(size - (off_t)METRICS_HISTORY_MAX, (off_t)0);
    if (!status && from > 0)
        status = sorted_lines_at(&lines, from, size, size, &oldest);
    if (!status)
        status = read_lines(metrics, oldest.begin, &text, error);
    if (status)
        return status;
    text.size_bytes = metrics_cut(text.data, text.size_bytes, step);
    *ret_text = text;
    return 0;
}

size_t metrics_cut(const void *text, size_t size_bytes, uint64_t step)
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

uint64_t metrics_newest(const void *text, size_t size_bytes)
{
    size_t whole = metrics_cut(text, size_bytes, UINT64_MAX);
    const char *begin = text, *end = begin + whole;
    const char *before = whole > 1 ? memrchr(begin, '\n', whole - 1) : NULL;
    const char *line = before ? before + 1 : begin;
    struct exact exact;

    return whole > 0 && !exact_line_parse(line, (size_t)(end - 1 - line), &exact, NULL) ? exact.step
                                                                                        : 0;
}

/* Return the next whole line of @text and advance *at past it; false at the end. */
static bool next_line(const struct bytes *text, size_t *at, struct bytes *ret_line)
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

/* Where both files have a step with different bits, the later generation is right: a step is
 * recomputed to other bits only after a dispute, and this node had no part in the recomputation. */
static bool corrects(const struct exact *theirs, const struct exact *mine)
{
    return !is_same(theirs, mine) && theirs->generation > mine->generation;
}

/* Merge both files' lines in step order. Where both have a step, keep @mine unless it is corrected;
 * the steps in memory index the lines. */
static int merge_lines(const struct metrics *mine, const struct bytes *my_text,
                       const struct metrics *theirs, const struct bytes *their_text,
                       struct bytes *into)
{
    size_t my_at = 0, their_at = 0, i = 0, j = 0;
    struct bytes line, passed;
    int status = 0;

    while (!status && (i < mine->count || j < theirs->count)) {
        bool same =
            i < mine->count && j < theirs->count && mine->steps[i].step == theirs->steps[j].step;
        bool take_mine = same ? !corrects(&theirs->steps[j], &mine->steps[i])
                              : j == theirs->count || (i < mine->count &&
                                                       mine->steps[i].step < theirs->steps[j].step);
        if (same &&
            next_line(take_mine ? their_text : my_text, take_mine ? &their_at : &my_at, &passed))
            *(take_mine ? &j : &i) += 1;
        if (!next_line(take_mine ? my_text : their_text, take_mine ? &my_at : &their_at, &line))
            return -EBADMSG; /* another process writes to the file */
        status = bytes_append(into, line.data, line.size_bytes);
        *(take_mine ? &i : &j) += 1;
    }
    return status;
}

static bool learns(const struct metrics *mine, const struct metrics *theirs)
{
    for (size_t i = 0; i < theirs->count; i++) {
        const struct exact *known = find_known(mine, theirs->steps[i].step);
        if (!known || corrects(&theirs->steps[i], known))
            return true;
    }
    return false;
}

/* Append the bytes [@from, @end) of the file to another file. */
static int copy_range(const struct metrics *metrics, int to, off_t from, off_t end)
{
    while (from < end) {
        ssize_t n = copy_file_range(metrics->descriptor, &from, to, NULL, (size_t)(end - from), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

static int write_all(int descriptor, const struct bytes *text)
{
    for (size_t done = 0; done < text->size_bytes;) {
        ssize_t n = write(descriptor, text->data + done, text->size_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

/* Replace the bytes [@offset, @end) of the file by @text, durably; on errors it is unchanged. */
static int replace_range(const struct metrics *metrics, off_t offset, off_t end,
                         const struct bytes *text, struct error *error)
{
    AUTO_FREE char *path = NULL;
    off_t size = 0;
    int status = metrics->descriptor < 0 ? 0 : file_size(metrics, &size, error);

    if (status)
        return status;
    if (offset == 0 && end >= size)
        return file_replace(metrics->path, text->data, text->size_bytes, 0644, error);
    if (asprintf(&path, "%s.new", metrics->path) < 0) {
        path = NULL;
        return error_set(error, -ENOMEM, "no memory to replace %s", metrics->path);
    }
    AUTO_CLOSE int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    status = descriptor < 0 ? -errno : copy_range(metrics, descriptor, 0, offset);
    if (!status)
        status = write_all(descriptor, text);
    if (!status)
        status = copy_range(metrics, descriptor, end, size);
    if (!status && (fsync(descriptor) || rename(path, metrics->path)))
        status = -errno;
    if (!status)
        return 0;
    unlink(path);
    return error_set(error, status, "replacing %s: %s", metrics->path, strerror(-status));
}

/*
 * Replace the end of the file from @offset on, durably; @text includes the lines that are not on
 * disk yet. Afterwards the steps in memory are those of @text. If the file was not open, it is open
 * afterwards for the next line.
 */
static int replace_end(struct metrics *metrics, off_t offset, const struct bytes *text,
                       struct error *error)
{
    struct metrics merged = {0};
    size_t valid_bytes;
    int status = load_lines(&merged, text, true, &valid_bytes, error);

    if (!status)
        status = replace_range(metrics, offset, INT64_MAX, text, error);
    if (!status) {
        free(metrics->steps);
        metrics->steps = merged.steps;
        metrics->count = merged.count;
        metrics->capacity = merged.capacity;
        metrics->unwritten.size_bytes = 0;
        metrics->unwritten_count = 0;
        return open_file(metrics, error);
    }
    free(merged.steps);
    return status;
}

/* Lines after @end are copied as bytes: they may belong to millions of steps. */
static int replace_middle(struct metrics *metrics, off_t offset, off_t end,
                          const struct bytes *text, struct error *error)
{
    int status = replace_range(metrics, offset, end, text, error);

    if (!status)
        status = open_file(metrics, error);
    return status ? status : load_file(metrics, error);
}

/* Parse lines that were only scanned, before they become part of the file. -EBADMSG */
static int check_lines(const struct bytes *text, struct error *error)
{
    struct metrics parsed = {0};
    size_t valid_bytes;
    int status = load_lines(&parsed, text, true, &valid_bytes, error);

    if (!status && valid_bytes != text->size_bytes)
        status = error_set(error, -EBADMSG,
                           "metrics received from another node are damaged after step %" PRIu64,
                           metrics_last_step(&parsed));
    free(parsed.steps);
    return status;
}

/* Append the lines of @theirs after the last line of the file, durably; existing lines stay. */
static int append_lines(struct metrics *metrics, const struct metrics *theirs,
                        const struct bytes *fresh, struct error *error)
{
    off_t size = 0;
    int status = file_size(metrics, &size, error);

    if (status)
        return status;
    status = write_all(metrics->descriptor, fresh);
    if (!status && fsync(metrics->descriptor))
        status = -errno;
    for (size_t i = 0; !status && i < theirs->count; i++)
        if (theirs->steps[i].step > metrics_last_step(metrics))
            status = remember(metrics, &theirs->steps[i]);
    if (metrics->count > WINDOW_LINES)
        forget_oldest(metrics);
    if (!status)
        return 0;
    if (ftruncate(metrics->descriptor, size))
        log_warning("cutting %s: %s", metrics->path, strerror(errno));
    return error_set(error, status, "writing %s: %s", metrics->path, strerror(-status));
}

/*
 * Take the lines of @theirs without a merge, which is the common case: the file has the same bytes
 * from some step on, because they were once copied from this node, or it has none after it was
 * away. Return: 1: the lines are in the file now, or were before; 0: a merge is needed
 */
static int take_as_they_are(struct metrics *metrics, const struct metrics *theirs,
                            const struct bytes *their_text, off_t offset, struct error *error)
{
    CLEANUP(bytes_done) struct bytes mine = {0};
    off_t after = 0, size = 0;
    int status = find_offset(metrics, metrics_last_step(theirs) + 1, &after, error);

    if (!status)
        status = file_size(metrics, &size, error);
    if (status || after - offset > (off_t)their_text->size_bytes || metrics->unwritten_count > 0)
        return status;
    status = after > offset ? read_range(metrics, offset, after, &mine, error) : 0;
    if (status || (mine.size_bytes > 0 && memcmp(mine.data, their_text->data, mine.size_bytes)))
        return status;
    const struct bytes fresh = {.data = their_text->data + mine.size_bytes,
                                .size_bytes = their_text->size_bytes - mine.size_bytes};
    if (fresh.size_bytes == 0)
        return 1;
    if (after < size) /* they come before some lines of this node */
        return 0;
    status = check_lines(&fresh, error);
    if (!status)
        status = append_lines(metrics, theirs, &fresh, error);
    return status ? status : 1;
}

/* Read the lines of this node that the lines of @theirs may change. *ret_end: their end in the
 * file, or INT64_MAX: to the end of the file, with the lines that are not on disk yet. */
static int read_overlap(const struct metrics *metrics, const struct metrics *theirs, off_t offset,
                        struct bytes *ret_text, off_t *ret_end, struct error *error)
{
    off_t end = 0, size = 0;

    *ret_end = INT64_MAX;
    if (metrics->descriptor < 0 || metrics->unwritten_count > 0)
        return read_lines(metrics, offset, ret_text, error);
    int status = find_offset(metrics, metrics_last_step(theirs) + 1, &end, error);
    if (!status)
        status = file_size(metrics, &size, error);
    if (!status && end < size)
        *ret_end = end;
    return status ? status : read_range(metrics, offset, end, ret_text, error);
}

/* Merge the lines of @theirs with this node's from @offset on, at most as many as a history has. */
static int merge_into_file(struct metrics *metrics, const struct metrics *theirs,
                           const struct bytes *their_text, off_t offset, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0}, merged = {0};
    struct metrics mine = {0};
    size_t valid_bytes;
    off_t end;
    int status = read_overlap(metrics, theirs, offset, &text, &end, error);

    if (!status)
        status = load_lines(&mine, &text, true, &valid_bytes, error);
    bool wanted = !status && learns(&mine, theirs);
    if (wanted)
        status = merge_lines(&mine, &text, theirs, their_text, &merged);
    if (status && error && !error->code)
        error_set(error, status, "merging metrics into %s: %s", metrics->path, strerror(-status));
    if (!status && wanted)
        status = end == INT64_MAX ? replace_end(metrics, offset, &merged, error)
                                  : replace_middle(metrics, offset, end, &merged, error);
    free(mine.steps);
    return status;
}

static int adopt_lines(struct metrics *metrics, const struct metrics *theirs,
                       const struct bytes *their_text, struct error *error)
{
    off_t offset = 0;
    int status = metrics->descriptor < 0
                     ? open_file(metrics, error)
                     : find_offset(metrics, theirs->steps[0].step, &offset, error);

    if (!status && metrics->descriptor >= 0)
        status = take_as_they_are(metrics, theirs, their_text, offset, error);
    if (!status)
        status = check_lines(their_text, error);
    if (status)
        return MIN(status, 0);
    return merge_into_file(metrics, theirs, their_text, offset, error);
}

int metrics_adopt(struct metrics *metrics, const void *data, size_t size_bytes, struct error *error)
{
    struct metrics theirs = {0};
    const struct bytes text = {.data = (uint8_t *)(uintptr_t)data, .size_bytes = size_bytes};
    size_t valid_bytes;
    int status = load_lines(&theirs, &text, false, &valid_bytes, error);

    if (!status && valid_bytes != size_bytes)
        status = error_set(error, -EBADMSG,
                           "metrics received from another node are damaged after step %" PRIu64,
                           metrics_last_step(&theirs));
    if (!status && theirs.count > 0)
        status = adopt_lines(metrics, &theirs, &text, error);
    free(theirs.steps);
    return status;
}

int metrics_rewind(struct metrics *metrics, uint64_t step, struct error *error)
{
    off_t offset = 0;

    if (metrics_last_step(metrics) <= step)
        return 0;
    int status = metrics->descriptor < 0 ? open_file(metrics, error) : 0;
    if (!status)
        status = find_offset(metrics, step + 1, &offset, error);
    if (!status && ftruncate(metrics->descriptor, offset))
        status = error_set(error, -errno, "cutting %s after step %" PRIu64 ": %s", metrics->path,
                           step, strerror(errno));
    if (status)
        return status;
    metrics->unwritten.size_bytes =
        metrics_cut(metrics->unwritten.data, metrics->unwritten.size_bytes, step);
    for (; metrics->count > 0 && metrics_last_step(metrics) > step; metrics->count--)
        metrics->unwritten_count -= metrics->unwritten_count > 0;
    if (metrics->count == 0)
        status = load_file(metrics, error);
    return status || metrics->unwritten.size_bytes == 0 ? status : flush_lines(metrics, error);
}
