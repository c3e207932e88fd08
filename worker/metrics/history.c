#include "worker/metrics/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sorted_lines.h"
#include "worker/metrics/line_file.h"
#include "worker/metrics/metrics_text.h"

#define PATH_SIZE 1280

static int write_lines(const char *part, const char *name, const struct bytes *text,
                       struct manifest *manifest, struct error *error)
{
    char path[PATH_SIZE];
    int status;

    snprintf(path, sizeof(path), "%s/%s", part, name);
    unlink(path); /* it may be a link to data of another checkpoint: do not write in place */
    status = file_replace(path, text->data, text->size_bytes, 0644, error);
    if (!status && manifest_add_file(manifest, name, text->data, text->size_bytes)) {
        unlink(path);
        status = error_set(error, -ENOMEM, "no memory to list %s", path);
    }
    return status;
}

/* ---- segments ---- */

/* Return the step of the last line of a segment, from its name; 0: not a segment. */
static uint64_t last_step_of(const char *name)
{
    static const char begin[] = "metrics-";
    char again[MANIFEST_FILE_SIZE];

    if (strncmp(name, begin, sizeof(begin) - 1) != 0)
        return 0;
    unsigned long long step = strtoull(name + sizeof(begin) - 1, NULL, 10);
    snprintf(again, sizeof(again), HISTORY_SEGMENT, step);
    return strcmp(again, name) == 0 ? step : 0;
}

bool history_is_part(const char *name)
{
    return strcmp(name, HISTORY_NAME) == 0 || last_step_of(name) > 0;
}

static int compare_segments(const void *left, const void *right)
{
    uint64_t a = last_step_of((*(const struct manifest_file *const *)left)->name);
    uint64_t b = last_step_of((*(const struct manifest_file *const *)right)->name);

    return a < b ? -1 : a > b;
}

/* List the segments of @manifest in step order. */
static const struct manifest_file **list_segments(const struct manifest *manifest,
                                                  size_t *ret_count)
{
    const struct manifest_file **list = calloc(manifest->file_count + 1, sizeof(*list));

    *ret_count = 0;
    for (size_t i = 0; list && i < manifest->file_count; i++)
        if (last_step_of(manifest->files[i].name) > 0)
            list[(*ret_count)++] = &manifest->files[i];
    if (*ret_count > 1)
        qsort(list, *ret_count, sizeof(*list), compare_segments);
    return list;
}

/* The lines that a checkpoint saves: bytes [oldest, end) of the metrics file, which grows
 * meanwhile. Lines are found by bisection, and only lines without a kept segment are read. */
struct saved_lines {
    struct line_file file; /* the path is borrowed */
    uint64_t step;         /* of the checkpoint */
    off_t oldest, end;
};

/* If bisection meets a damaged line, all lines up to the end of the file are read and searched.
 */
static int find_lines(struct saved_lines *lines, struct error *error)
{
    off_t size = 0;
    int status = line_file_size(&lines->file, &size, error);

    if (status)
        return status;
    if (line_file_find(&lines->file, lines->step + 1, &lines->end, NULL))
        lines->end = size;
    off_t from = MAX(lines->end - (off_t)HISTORY_BYTES_MAX, (off_t)0);
    while (from > 0 && from < lines->end &&
           line_file_begin_after(&lines->file, from, &lines->oldest)) /* damage: begin behind it */
        lines->oldest = from = MIN(from + (off_t)SORTED_LINE_BYTES_MAX, lines->end);
    return 0;
}

/* Return the offset of the first line after step @last; 0: of the oldest line. */
static off_t begin_after(const struct saved_lines *lines, uint64_t last)
{
    off_t begin = lines->oldest;

    if (last > 0 && line_file_find(&lines->file, last + 1, &begin, NULL))
        begin = lines->oldest;
    return MIN(MAX(begin, lines->oldest), lines->end);
}

static bool has_size(const char *path, uint64_t size_bytes)
{
    struct stat found;

    return !stat(path, &found) && (uint64_t)found.st_size == size_bytes;
}

/* Link a segment of the earlier checkpoint without reading it: like every file of a checkpoint it
 * was read back then, and will be again with this one. */
static int link_segment(const struct history_source *source, const struct manifest_file *file,
                        const char *part, struct manifest *manifest)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    uint32_t *crcs = calloc(file->chunk_count + 1, sizeof(*crcs));
    struct manifest_file *files =
        crcs ? realloc(manifest->files, (manifest->file_count + 1) * sizeof(*files)) : NULL;

    snprintf(from, sizeof(from), "%s/%s", source->before, file->name);
    snprintf(to, sizeof(to), "%s/%s", part, file->name);
    if (files)
        manifest->files = files;
    unlink(to);
    if (!files || !has_size(from, file->size_bytes) || link(from, to)) {
        free(crcs);
        return -EIO;
    }
    memcpy(crcs, file->chunk_crcs, file->chunk_count * sizeof(*crcs));
    files[manifest->file_count] = (struct manifest_file){
        .size_bytes = file->size_bytes, .chunk_crcs = crcs, .chunk_count = file->chunk_count};
    memcpy(files[manifest->file_count++].name, file->name, sizeof(file->name));
    return 0;
}

/*
 * Return the number of old segments to keep: those with more than twice the bytes of all lines
 * after them. So there are few segments, and a line is rewritten only a few times in a run of any
 * length.
 */
static size_t count_kept(const struct manifest_file *const *segments, size_t count,
                         const struct saved_lines *lines)
{
    while (count > 0) {
        uint64_t last = last_step_of(segments[count - 1]->name);
        uint64_t fresh_bytes = (uint64_t)(lines->end - begin_after(lines, last));
        if (segments[count - 1]->size_bytes > 2 * fresh_bytes)
            break;
        count--;
    }
    return count;
}

/* Leave out the oldest segments if there are more bytes than a checkpoint takes. */
static size_t first_kept(const struct manifest_file *const *segments, size_t count,
                         uint64_t fresh_bytes)
{
    uint64_t total = fresh_bytes;
    size_t first = count;

    while (first > 0 && total + segments[first - 1]->size_bytes <= HISTORY_BYTES_MAX)
        total += segments[--first]->size_bytes;
    return first;
}

static int save_fresh(const struct saved_lines *lines, uint64_t last, const char *part,
                      struct manifest *manifest, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    char name[MANIFEST_FILE_SIZE];
    int status = line_file_read(&lines->file, begin_after(lines, last), lines->end, &text, error);

    if (status)
        return status;
    text.size_bytes = metrics_text_cut(text.data, text.size_bytes, lines->step);
    size_t known = last > 0 ? metrics_text_cut(text.data, text.size_bytes, last) : 0;
    const struct bytes fresh = {.data = text.data + known, .size_bytes = text.size_bytes - known};
    if (fresh.size_bytes == 0)
        return 0;
    snprintf(name, sizeof(name), HISTORY_SEGMENT,
             (unsigned long long)metrics_text_newest(fresh.data, fresh.size_bytes));
    return write_lines(part, name, &fresh, manifest, error);
}

static int save(const struct history_source *source, const struct saved_lines *lines,
                const char *part, struct manifest *manifest, struct error *error)
{
    size_t count = 0, listed = manifest->file_count;
    AUTO_FREE const struct manifest_file **segments =
        source->manifest ? list_segments(source->manifest, &count) : NULL;
    size_t kept = segments ? count_kept(segments, count, lines) : 0;
    uint64_t last = kept > 0 ? last_step_of(segments[kept - 1]->name) : 0;
    uint64_t fresh_bytes = (uint64_t)(lines->end - begin_after(lines, last));

    for (size_t i = kept > 0 ? first_kept(segments, kept, fresh_bytes) : 0; i < kept; i++)
        if (link_segment(source, segments[i], part, manifest)) { /* write all lines anew */
            manifest_drop_files(manifest, listed);
            last = 0;
            break;
        }
    return save_fresh(lines, last, part, manifest, error);
}

int history_save(const struct history_source *source, uint64_t step, const char *part,
                 struct manifest *manifest, struct error *error)
{
    AUTO_CLOSE int descriptor = open(source->metrics_path, O_RDONLY | O_CLOEXEC);
    struct saved_lines lines = {
        .file = {.path = (char *)source->metrics_path, .descriptor = descriptor}, .step = step};

    if (descriptor < 0)
        return errno == ENOENT
                   ? 0
                   : error_set(error, -errno, "%s: %s", source->metrics_path, strerror(errno));
    int status = find_lines(&lines, error);
    return status ? status : save(source, &lines, part, manifest, error);
}

/* ---- the way back ---- */

static int take_file(const char *folder, const char *file, const struct manifest *manifest,
                     struct metrics *metrics, struct error *error)
{
    char path[PATH_SIZE];
    struct bytes text = {0};
    int status;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    status = file_read(path, HISTORY_BYTES_MAX, &text, error);
    if (!status)
        status = manifest_check_file(manifest, file, &text, path, error);
    if (!status)
        status = metrics_adopt(metrics, text.data, text.size_bytes, error);
    bytes_done(&text);
    return status;
}

int history_take(const char *path, const struct manifest *manifest, struct metrics *metrics,
                 struct error *error)
{
    size_t count = 0;
    AUTO_FREE const struct manifest_file **segments = list_segments(manifest, &count);
    int status = 0;

    if (!segments)
        return error_set(error, -ENOMEM, "no memory for the metrics of %s", path);
    if (manifest_find_file(manifest, HISTORY_NAME)) /* format of older programs */
        status = take_file(path, HISTORY_NAME, manifest, metrics, error);
    for (size_t i = 0; !status && i < count; i++)
        status = take_file(path, segments[i]->name, manifest, metrics, error);
    return status;
}
