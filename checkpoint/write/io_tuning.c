#include "checkpoint/write/io_tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"

#define TRIAL_NAME      "io-tuning.part"
#define TRIAL_BYTES     ((size_t)32 << 20) /* per choice */
#define TRIALS_NS       NS_PER_SECOND
#define TUNING_FILE_MAX 4096
#define ALIGNMENT       4096

static const struct io_tuning choices[] = {
    {.block_bytes = (size_t)4 << 20, .depth = 8},  {.block_bytes = (size_t)4 << 20, .depth = 4},
    {.block_bytes = (size_t)2 << 20, .depth = 16}, {.block_bytes = (size_t)1 << 20, .depth = 8},
    {.block_bytes = (size_t)1 << 20, .depth = 32}, {.block_bytes = (size_t)512 << 10, .depth = 16},
};

struct io_tuning io_tuning_usual(void)
{
    return choices[0];
}

struct io_tuning io_tuning_best(const struct io_tuning *measured, unsigned count)
{
    struct io_tuning best = measured[0];
    for (unsigned i = 1; i < count; i++) {
        if (measured[i].bytes_per_second > best.bytes_per_second)
            best = measured[i];
    }
    bool worth = best.bytes_per_second > (1 + IO_TUNING_GAIN_LEAST) * measured[0].bytes_per_second;
    return worth ? best : measured[0];
}

/* ---- the saved result ---- */

static bool is_allowed(const struct io_tuning *tuning)
{
    return tuning->block_bytes >= ALIGNMENT && tuning->block_bytes % ALIGNMENT == 0 &&
           MANIFEST_CHUNK_BYTES % tuning->block_bytes == 0 && tuning->depth > 0 &&
           tuning->depth <= IO_DEPTH_MAX;
}

static int recall(const struct io *io, const char *path, struct io_tuning *ret_tuning)
{
    struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    char name[32];
    uint64_t block_bytes = 0;
    struct io_tuning tuning = {0};
    int status = file_read(path, TUNING_FILE_MAX, &text, NULL);
    if (status == 0)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, NULL);
    bytes_done(&text);
    if (status == 0)
        status = json_get_text(tree, "io", name, sizeof(name), NULL);
    if (status == 0)
        status = json_get_u64(tree, "block_bytes", MANIFEST_CHUNK_BYTES, &block_bytes, NULL);
    if (status == 0)
        status = json_get_unsigned(tree, "depth", IO_DEPTH_MAX, &tuning.depth, NULL);
    if (status == 0)
        status = json_get_double(tree, "bytes_per_second", &tuning.bytes_per_second, NULL);
    tuning.block_bytes = (size_t)block_bytes;
    if (status != 0 || strcmp(name, io->name) != 0 || !is_allowed(&tuning))
        return -ENOENT;
    *ret_tuning = tuning;
    return 0;
}

/* Save the result for the next worker; if that fails, the next worker measures again. */
static void remember(const struct io *io, const char *path, const struct io_tuning *tuning)
{
    AUTO_JSON json_t *tree = json_pack("{s:s, s:I, s:i, s:f}", "io", io->name, "block_bytes",
                                       (json_int_t)tuning->block_bytes, "depth", (int)tuning->depth,
                                       "bytes_per_second", tuning->bytes_per_second);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int ignored = text ? file_replace(path, text, strlen(text), 0644, NULL) : -ENOMEM;
    (void)ignored;
}

/* ---- measuring ---- */

struct trial {
    const struct io *io;
    struct io_context *context;
    const uint8_t *arena; /* TRIAL_BYTES */
    int descriptor;
};

static int write_all(const struct trial *trial, size_t block_bytes)
{
    size_t posted = 0, written = 0;
    while (written < TRIAL_BYTES) {
        uint64_t user;
        int status = posted < TRIAL_BYTES
                         ? trial->io->write(trial->context, trial->descriptor,
                                            trial->arena + posted, block_bytes, posted, 0)
                         : -EAGAIN;
        if (status == 0) {
            posted += block_bytes;
            continue;
        }
        if (status != -EAGAIN)
            return status;
        status = trial->io->drain(trial->context, true, &user);
        if (status <= 0)
            return status < 0 ? status : -EIO;
        written += block_bytes;
    }
    return 0;
}

static int measure(const struct io *io, uint8_t *arena, int descriptor, struct io_tuning *choice)
{
    struct trial trial = {.io = io, .arena = arena, .descriptor = descriptor};
    int status = io->open(choice->depth, arena, TRIAL_BYTES, &trial.context, NULL);
    if (status != 0)
        return status;
    uint64_t begun_ns = clock_monotonic_ns();
    status = write_all(&trial, choice->block_bytes);
    double seconds = (double)(clock_monotonic_ns() - begun_ns) / 1e9;
    io->close(trial.context);
    if (status == 0)
        choice->bytes_per_second = (double)TRIAL_BYTES / MAX(seconds, 1e-9);
    return status;
}

/* The first pass over a file allocates its blocks, later passes reuse them: discard the first
 * one. */
static int measure_all(const struct io *io, uint8_t *arena, int descriptor,
                       struct io_tuning *ret_best)
{
    struct io_tuning measured[ARRAY_COUNT(choices)];
    uint64_t due_ns = clock_monotonic_ns() + TRIALS_NS;
    unsigned count = 0;
    struct io_tuning warm = choices[0];
    int status = measure(io, arena, descriptor, &warm);
    while (status == 0 && count < ARRAY_COUNT(choices) &&
           (count == 0 || clock_monotonic_ns() < due_ns)) {
        measured[count] = choices[count];
        status = measure(io, arena, descriptor, &measured[count]);
        count += status == 0;
    }
    if (status == 0)
        *ret_best = io_tuning_best(measured, count);
    return status;
}

/* The trial's file is also the lock: a worker that finds it there uses the usual choice. A file
 * left by a crash is removed by the next attempt. */
static int tune(const struct io *io, const char *folder, struct io_tuning *ret_best)
{
    char path[FOLDER_FILE_SIZE];
    AUTO_FREE uint8_t *arena = aligned_alloc(ALIGNMENT, TRIAL_BYTES);
    struct io_context *context;
    if (!arena)
        return -ENOMEM;
    memset(arena, 0x5a, TRIAL_BYTES);
    folder_file_path(folder, TRIAL_NAME, path);
    int status = io->open(1, NULL, 0, &context, NULL);
    if (status != 0)
        return status;
    int descriptor = io->create(context, path, true);
    if (descriptor >= 0) {
        status = io->reserve(context, descriptor, TRIAL_BYTES);
        if (status == 0)
            status = measure_all(io, arena, descriptor, ret_best);
        int ignored = io->close_file(context, descriptor);
        (void)ignored;
    }
    if (descriptor >= 0 || descriptor == -EEXIST) {
        int ignored = io->unlink(context, path);
        (void)ignored;
    }
    io->close(context);
    return descriptor < 0 ? descriptor : status;
}

struct io_tuning io_tune(const struct io *io, const char *folder)
{
    char path[FOLDER_FILE_SIZE], nearest[FOLDER_PATH_SIZE];
    struct io_tuning tuning;
    folder_file_path(folder, IO_TUNING_FILE_NAME, path);
    if (recall(io, path, &tuning) == 0)
        return tuning;
    folder_nearest(folder, nearest);
    if (tune(io, nearest, &tuning) != 0)
        return io_tuning_usual();
    remember(io, path, &tuning);
    return tuning;
}
