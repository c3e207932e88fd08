#include "checkpoint/read/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/read/reader_state.h"

#define ALIGNMENT 4096
#define NAP_NS    (NS_PER_SECOND / 10) /* longest sleep without a check of `stop` */

struct scrub {
    const struct scrub_options *options;
    struct scrub_finding *finding;
    struct manifest manifest;
    uint8_t *chunk; /* MANIFEST_CHUNK_BYTES */
    uint64_t began_ns, done_bytes, total_bytes;
};

static bool is_here(const struct scrub *scrub, const struct manifest_file *entry)
{
    return !scrub->options->node || entry->node_count == 0 ||
           manifest_file_on(entry, scrub->options->node);
}

/* Return the time at which the bytes read so far are due. */
static uint64_t due_ns(const struct scrub *scrub)
{
    double share = (double)scrub->done_bytes / (double)MAX(scrub->total_bytes, (uint64_t)1);
    return scrub->began_ns + (uint64_t)(share * scrub->options->seconds * (double)NS_PER_SECOND);
}

static bool stopped(const struct scrub *scrub)
{
    return atomic_load_explicit(scrub->options->stop, memory_order_relaxed);
}

static int rest(const struct scrub *scrub)
{
    uint64_t due = due_ns(scrub), now;
    while (!stopped(scrub) && (now = clock_monotonic_ns()) < due) {
        uint64_t nap = MIN(due - now, (uint64_t)NAP_NS);
        const struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)nap};
        (void)nanosleep(&pause, NULL);
    }
    return stopped(scrub) ? -ECANCELED : 0;
}

static int open_direct(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor < 0 && errno == EINVAL)
        descriptor = open(path, O_RDONLY | O_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

/* Interpret a read error: retention may have removed the checkpoint meanwhile. */
static int judge(const struct scrub *scrub, int code, struct error *error)
{
    if (access(scrub->options->path, F_OK) != 0)
        return error_set(error, -ENOENT, "%s is gone", scrub->options->path);
    bool is_own_disk = scrub->options->node != NULL;
    bool lost = code == -EBADMSG || (code == -EIO && is_own_disk) || code == -ENOENT;
    return lost ? -EBADMSG : code;
}

static void note_inode(struct scrub *scrub, int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) == 0) {
        scrub->finding->device = status.st_dev;
        scrub->finding->inode = status.st_ino;
    }
}

static int scrub_file(struct scrub *scrub, const struct manifest_file *entry, struct error *error)
{
    struct reader_file file = {.entry = entry, .descriptor = -1};
    folder_file_path(scrub->options->path, entry->name, file.path);
    AUTO_CLOSE int descriptor = open_direct(file.path);
    if (descriptor < 0)
        return judge(
            scrub, error_set(error, descriptor, "%s: %s", file.path, strerror(-descriptor)), error);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        int status = reader_check_chunk(&file, descriptor, i, scrub->chunk, error);
        if (status == -EBADMSG)
            note_inode(scrub, descriptor);
        if (status != 0)
            return judge(scrub, status, error);
        scrub->done_bytes += reader_chunk_bytes(&file, i);
        atomic_store(scrub->options->done_bytes, scrub->done_bytes);
        status = rest(scrub);
        if (status != 0)
            return error_set(error, status, "%s: verifying it was stopped", file.path);
    }
    return 0;
}

static void note(struct scrub *scrub, const struct manifest_file *entry)
{
    memcpy(scrub->finding->file, entry->name, sizeof(entry->name));
    scrub->finding->is_metrics = reader_is_metrics(entry->name);
    if (entry->node_count > 0)
        memcpy(scrub->finding->writer, entry->nodes[0], NAME_SIZE);
}

/* Check the files of metrics, or all others, which come first: their damage counts for more. */
static int scrub_kind(struct scrub *scrub, bool metrics, struct error *error)
{
    for (size_t i = 0; i < scrub->manifest.file_count; i++) {
        const struct manifest_file *entry = &scrub->manifest.files[i];
        if (reader_is_metrics(entry->name) != metrics || !is_here(scrub, entry))
            continue;
        int status = scrub_file(scrub, entry, error);
        if (status == -EBADMSG)
            note(scrub, entry);
        if (status != 0)
            return status;
    }
    return 0;
}

static int scrub_files(struct scrub *scrub, struct error *error)
{
    const struct manifest *manifest = &scrub->manifest;
    for (size_t i = 0; i < manifest->file_count; i++)
        scrub->total_bytes +=
            is_here(scrub, &manifest->files[i]) ? manifest->files[i].size_bytes : 0;
    atomic_store(scrub->options->done_bytes, 0);
    atomic_store(scrub->options->total_bytes, scrub->total_bytes);
    scrub->began_ns = clock_monotonic_ns();
    int status = scrub_kind(scrub, false, error);
    return status == 0 ? scrub_kind(scrub, true, error) : status;
}

/* Return whether the folder has another checkpoint by now: a job that went back writes the same
 * step again. */
static bool is_another(const struct scrub *scrub)
{
    struct manifest manifest;
    if (manifest_load(scrub->options->path, NULL, &manifest, NULL) != 0)
        return false;
    manifest_done(&manifest);
    return true;
}

int checkpoint_scrub(const struct scrub_options *options, struct scrub_finding *ret_finding,
                     struct error *error)
{
    struct scrub scrub = {.options = options, .finding = ret_finding};
    *ret_finding = (struct scrub_finding){.file = "manifest.json"};
    int status = manifest_load(options->path, options->sha256, &scrub.manifest, error);
    if (status == -EBADMSG && is_another(&scrub))
        return error_set(error, -ENOENT, "%s is another checkpoint by now", options->path);
    if (status != 0)
        return judge(&scrub, status, error);
    scrub.chunk = aligned_alloc(ALIGNMENT, MANIFEST_CHUNK_BYTES);
    status = scrub.chunk ? scrub_files(&scrub, error)
                         : error_set(error, -ENOMEM, "no memory to verify %s", options->path);
    free(scrub.chunk);
    manifest_done(&scrub.manifest);
    if (status == -EBADMSG && manifest_load(options->path, options->sha256, &scrub.manifest, NULL))
        return is_another(&scrub)
                   ? error_set(error, -ENOENT, "%s is another checkpoint by now", options->path)
                   : status;
    if (status == -EBADMSG)
        manifest_done(&scrub.manifest);
    return status;
}
