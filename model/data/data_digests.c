#include "model/data/data_digests.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_list.h"
#include "base/log.h"
#include "model/data/digest_folder.h"
#include "model/data/token_row.h"

#define SETTLED_NS    (2 * NS_PER_SECOND) /* the coarsest tick of a file system: FAT's */
#define WAIT_SLICE_NS (10 * NS_PER_MS)
#define ENTRY_MAX     256
#define FAILURE_MAX   (ERROR_TEXT_SIZE + 256)
#define FAILURE_HEAD  "firn data failure 1\n"
_Static_assert(ERROR_TEXT_SIZE == 1024, "the width in inherit_failure()");

/* File system metadata of the files of a data set. */
struct survey {
    struct hash_stream *stream;
    uint64_t size_bytes;
    uint64_t modified_ns, changed_ns; /* the newest times */
};

static uint64_t nanoseconds(struct timespec time)
{
    return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static int add_file(struct survey *survey, const struct listed_file *file, struct error *error)
{
    struct stat status;

    if (stat(file->path, &status) < 0)
        return error_set(error, -errno, "data: %s: %s", file->path, strerror(errno));
    const uint64_t facts[] = {status.st_dev, status.st_ino, (uint64_t)status.st_size,
                              (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec};
    hash_stream_add(survey->stream, file->path, strlen(file->path) + 1);
    hash_stream_add(survey->stream, facts, sizeof(facts));
    survey->size_bytes += (uint64_t)status.st_size;
    survey->modified_ns = MAX(survey->modified_ns, nanoseconds(status.st_mtim));
    survey->changed_ns = MAX(survey->changed_ns, nanoseconds(status.st_ctim));
    return 0;
}

/* The count keeps lists apart: moving a file from one list to another gives another digest. */
static int add_list(struct survey *survey, const char *key, const char *const *paths,
                    unsigned path_count, struct error *error)
{
    CLEANUP(file_list_done) struct file_list files = {0};
    int status = path_count > 0 ? file_list_find(key, paths, path_count, &files, error) : 0;
    const uint64_t count = files.count;

    hash_stream_add(survey->stream, &count, sizeof(count));
    for (size_t i = 0; status == 0 && i < files.count; i++)
        status = add_file(survey, &files.files[i], error);
    return status;
}

static int survey_files(const struct dataset_options *options, struct survey *ret_survey,
                        struct hash128 *ret_identity, struct error *error)
{
    *ret_survey = (struct survey){.stream = hash_stream_new()};
    if (!ret_survey->stream)
        return error_set(error, -ENOMEM, "data: no memory for the names of its files");
    int status = add_list(ret_survey, "data.path", options->paths, options->path_count, error);
    if (status == 0)
        status =
            add_list(ret_survey, "data.mask", options->mask_paths, options->mask_path_count, error);
    if (status == 0)
        status = add_list(ret_survey, "data.validation", &options->validation_path,
                          options->validation_path != NULL, error);
    if (status == 0)
        status = add_list(ret_survey, "data.validation_mask", &options->validation_mask_path,
                          options->validation_mask_path != NULL, error);
    *ret_identity = hash_stream_result(ret_survey->stream);
    hash_stream_free(ret_survey->stream);
    return status;
}

/* Return the name of the entry. Every change moves the newest change time, even a change that sets
 * the other times back. */
static struct hash128 key_of(const struct dataset_options *options, struct hash128 identity,
                             uint64_t changed_ns)
{
    const uint64_t words[] = {(uint64_t)options->format, options->vocab, identity.high,
                              identity.low, changed_ns};
    return hash_xxh3(words, sizeof(words));
}

/* ---- entries ---- */

static int entry_path(const struct data_digests *memo, char ret_path[PATH_MAX])
{
    char name[HASH128_TEXT_SIZE];

    hash128_text(memo->key, name);
    int length = snprintf(ret_path, PATH_MAX, "%s/%s", memo->folder, name);
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void entry_text(struct hash128 key, struct hash128 digest, char ret_text[ENTRY_MAX])
{
    char words[2][HASH128_TEXT_SIZE], check[HASH128_TEXT_SIZE];

    hash128_text(key, words[0]);
    hash128_text(digest, words[1]);
    int length = snprintf(ret_text, ENTRY_MAX, "firn data digest 1\nkey %s\ndigest %s\n", words[0],
                          words[1]);
    hash128_text(hash_xxh3(ret_text, (size_t)length), check);
    snprintf(ret_text + length, (size_t)(ENTRY_MAX - length), "check %s\n", check);
}

/* Look up the entry; it is valid only if it equals the text that this program would write. Using an
 * entry renews its age. */
static bool look_up(struct data_digests *memo, const char *path)
{
    struct bytes text = {0};
    struct error error = {0};
    char digest[HASH128_TEXT_SIZE], right[ENTRY_MAX];

    if (file_read(path, ENTRY_MAX, &text, &error) < 0)
        return false;
    bool read = sscanf((const char *)text.data, "firn data digest 1\nkey %*32s\ndigest %32s\n",
                       digest) == 1 &&
                hash128_parse(digest, &memo->digest);
    if (read) {
        entry_text(memo->key, memo->digest, right);
        memo->known =
            text.size_bytes == strlen(right) && memcmp(text.data, right, text.size_bytes) == 0;
    }
    bytes_done(&text);
    if (memo->known)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
    return memo->known;
}

/* Wait for the lock of the entry. The worker that reads the data replaces the entry, so the lock
 * may be on a deleted file: look the entry up again after locking. */
static void wait_for_turn(struct data_digests *memo, const char *path,
                          const struct dataset_listener *listener)
{
    int status;

    memo->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (memo->lock < 0) {
        log_warning("%s: %s: this worker reads the data for itself", path, strerror(errno));
        return;
    }
    status = flock(memo->lock, LOCK_EX | LOCK_NB);
    memo->waited = status < 0;
    if (status < 0 && listener->reading)
        listener->reading(listener->context, 0, 0);
    if (status < 0)
        do
            status = flock(memo->lock, LOCK_EX);
        while (status < 0 && errno == EINTR);
    if (status < 0)
        log_warning("locking %s: %s: this worker reads the data for itself", path, strerror(errno));
}

/* ---- a failure, for the processes that wait ---- */

static void failure_text(struct hash128 key, const struct error *error, char ret_text[FAILURE_MAX])
{
    char name[HASH128_TEXT_SIZE], check[HASH128_TEXT_SIZE];

    hash128_text(key, name);
    int length = snprintf(ret_text, FAILURE_MAX, FAILURE_HEAD "key %s\ncause %s\n%s\n", name,
                          error->code == -ERANGE ? "range" : "form", error->text);
    hash128_text(hash_xxh3(ret_text, (size_t)length), check);
    snprintf(ret_text + length, (size_t)(FAILURE_MAX - length), "check %s\n", check);
}

/* Return the failure of the process that had the lock before; 0: that process died, or failed for a
 * reason of its own. */
static int inherit_failure(const struct data_digests *memo, struct error *error)
{
    char found[FAILURE_MAX] = {0}, right[FAILURE_MAX], cause[8];
    struct error failure = {0};

    ssize_t size_bytes = memo->waited ? pread(memo->lock, found, sizeof(found) - 1, 0) : 0;
    if (size_bytes <= 0 || sscanf(found, FAILURE_HEAD "key %*32s\ncause %7[a-z]\n%1023[^\n]", cause,
                                  failure.text) != 2)
        return 0;
    failure.code = strcmp(cause, "range") == 0 ? -ERANGE : -EINVAL;
    failure_text(memo->key, &failure, right);
    if (strcmp(found, right) != 0)
        return 0;
    return error_set(error, failure.code, "%s", failure.text);
}

/* Write the failure into the locked file itself: only the processes that wait have it open. A later
 * start replaces the file, or reads again. */
static void bequeath_failure(const struct data_digests *memo, const struct error *error)
{
    char text[FAILURE_MAX];

    failure_text(memo->key, error, text);
    if (ftruncate(memo->lock, 0) < 0 ||
        pwrite(memo->lock, text, strlen(text), 0) != (ssize_t)strlen(text))
        log_info("the others read the data for themselves: %s", strerror(errno));
}

static uint64_t wall_ns(const struct dataset_options *options)
{
    const struct clock *clock = options->clock ? options->clock : clock_real();

    return clock->realtime_ns(clock->context);
}

/* Wait until the tick of the file system's clock cannot hide a write: two seconds for files that
 * were just written. */
static void settle(struct data_digests *memo, const struct dataset_options *options)
{
    const struct timespec slice = {.tv_nsec = WAIT_SLICE_NS};
    uint64_t waited_ns = 0;

    while (memo->changed_ns <= wall_ns(options) &&
           wall_ns(options) < memo->changed_ns + SETTLED_NS && waited_ns < SETTLED_NS) {
        (void)nanosleep(&slice, NULL);
        waited_ns += WAIT_SLICE_NS;
    }
    memo->settled = memo->changed_ns + SETTLED_NS <= wall_ns(options);
    if (!memo->settled)
        log_warning("the last change of a file of the training data is in the future of this "
                    "node's clock, so its digest is not kept, and every worker reads the data: "
                    "mend the clock, or touch the files");
}

static int consult(struct data_digests *memo, const struct dataset_options *options,
                   struct error *error)
{
    char path[PATH_MAX];
    struct error folder_error = {0};

    int status = file_make_directories(memo->folder, 0755, &folder_error);
    if (status == 0)
        status = entry_path(memo, path);
    if (status < 0) {
        log_warning("nothing is kept of the data: %s",
                    folder_error.code ? folder_error.text : strerror(-status));
        memo->folder = NULL;
        return 0;
    }
    if (look_up(memo, path))
        return 0;
    wait_for_turn(memo, path, &options->listener);
    if (look_up(memo, path)) {
        data_digests_done(memo); /* the next process may continue */
        return 0;
    }
    status = inherit_failure(memo, error);
    if (status < 0)
        return status;
    log_info("no valid digest of the training data in %s is kept: reading it", path);
    settle(memo, options);
    return 0;
}

/* ---- begin, end and fail ---- */

int data_digests_begin(const struct dataset_options *options, struct data_digests *ret_memo,
                       struct error *error)
{
    struct survey survey;

    *ret_memo = (struct data_digests){.lock = -1, .folder = options->memo_folder};
    int status = survey_files(options, &survey, &ret_memo->identity, error);
    ret_memo->watched = survey.size_bytes > dataset_memory_max(options);
    if (status < 0 || !ret_memo->watched || !ret_memo->folder)
        return status;
    ret_memo->key = key_of(options, ret_memo->identity, survey.changed_ns);
    ret_memo->changed_ns = MAX(survey.modified_ns, survey.changed_ns);
    return consult(ret_memo, options, error);
}

static void keep(struct data_digests *memo, struct hash128 digest)
{
    char path[PATH_MAX], text[ENTRY_MAX];
    struct error error = {0};

    entry_text(memo->key, digest, text);
    memo->known =
        entry_path(memo, path) == 0 && file_replace(path, text, strlen(text), 0644, &error) == 0;
    if (memo->known)
        memo->digest = digest;
    else
        log_warning("every worker will read the data for itself: %s", error.text);
    data_digests_limit(memo);
}

int data_digests_end(struct data_digests *memo, const struct dataset_options *options,
                     struct hash128 digest, struct error *error)
{
    struct survey survey;
    struct hash128 identity;

    if (!memo->watched)
        return 0;
    int status = survey_files(options, &survey, &identity, error);
    if (status < 0)
        return status;
    if (!hash128_equal(identity, memo->identity))
        return error_set(
            error, -EIO,
            "data: a file of data.path, data.validation or of their masks changed while "
            "it was read: start the job when nothing writes to them any more");
    bool same = hash128_equal(key_of(options, identity, survey.changed_ns), memo->key);
    if (memo->folder && !memo->known && same && memo->settled)
        keep(memo, digest);
    return 0;
}

void data_digests_fail(const struct data_digests *memo, const struct dataset_options *options,
                       const struct error *error)
{
    struct survey survey;
    struct hash128 identity;

    if (memo->lock < 0 || memo->known || (error->code != -ERANGE && error->code != -EINVAL))
        return;
    if (survey_files(options, &survey, &identity, NULL) == 0 &&
        hash128_equal(key_of(options, identity, survey.changed_ns), memo->key))
        bequeath_failure(memo, error);
}

char *data_digests_path(const struct data_digests *memo, const char *ending)
{
    char path[PATH_MAX], *full;

    if (!memo->watched || !memo->folder || entry_path(memo, path) < 0 ||
        asprintf(&full, "%s%s", path, ending) < 0)
        return NULL;
    return full;
}

void data_digests_limit(const struct data_digests *memo)
{
    digest_folder_limit(memo->folder, DIGEST_FOLDER_MAX, DIGEST_FOLDER_MAX_BYTES);
}

void data_digests_done(struct data_digests *memo)
{
    close_descriptor(&memo->lock);
    memo->lock = -1;
}
