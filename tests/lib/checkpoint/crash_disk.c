#include "lib/checkpoint/crash_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CRASH_FILES_MAX      64
#define CRASH_FOLDERS_MAX    4
#define CRASH_EXHAUSTIVE_MAX 8
#define CRASH_RANDOM_STATES  40
#define CRASH_NAME_SIZE      160

enum crash_fate { CRASH_LOST, CRASH_DONE, CRASH_HALF };

struct crash_file {
    uint8_t *content;
    size_t size_bytes;
    unsigned folder;
    char name[CRASH_NAME_SIZE]; /* empty: no name points to it */
};

/* The model of the job's folder under the recorded work. */
struct crash_disk {
    struct crash_file files[CRASH_FILES_MAX];
    char folders[CRASH_FOLDERS_MAX][CRASH_NAME_SIZE]; /* empty: no name points to it */
};

static void crash_grow(struct crash_file *file, size_t size_bytes)
{
    if (size_bytes > file->size_bytes) {
        file->content = realloc(file->content, size_bytes);
        memset(file->content + file->size_bytes, 0, size_bytes - file->size_bytes);
    }
    file->size_bytes = size_bytes;
}

static void crash_write(struct crash_file *file, const struct record *record, enum crash_fate fate)
{
    size_t size = fate == CRASH_HALF ? record->size_bytes / 2 / 512 * 512 : record->size_bytes;
    if (record->offset + size > file->size_bytes)
        crash_grow(file, (size_t)record->offset + size);
    if (size > 0)
        memcpy(file->content + record->offset, record->data, size);
}

static const char *crash_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* Give the name to @file; a previous holder of the name loses it. */
static void crash_put_name(struct crash_disk *disk, unsigned file, unsigned folder,
                           const char *name)
{
    for (unsigned i = 0; i < CRASH_FILES_MAX; i++) {
        if (disk->files[i].folder == folder && strcmp(disk->files[i].name, name) == 0)
            disk->files[i].name[0] = '\0';
    }
    if (file == CRASH_FILES_MAX)
        return;
    disk->files[file].folder = folder;
    snprintf(disk->files[file].name, CRASH_NAME_SIZE, "%s", name);
}

static void crash_rename(struct crash_disk *disk, const struct record *record,
                         const struct crash_meaning *meaning)
{
    if (meaning->is_folder)
        snprintf(disk->folders[meaning->folder], CRASH_NAME_SIZE, "%s", crash_name(record->target));
    else
        crash_put_name(disk, meaning->file, meaning->target_folder, crash_name(record->target));
}

static void crash_apply(const struct crash *crash, struct crash_disk *disk, unsigned index,
                        enum crash_fate fate)
{
    const struct record *record = &recording.records[index];
    const struct crash_meaning *meaning = &crash->meanings[index];
    switch (record->kind) {
    case RECORD_MAKE_DIRECTORY:
        snprintf(disk->folders[meaning->folder], CRASH_NAME_SIZE, "%s", crash_name(record->path));
        break;
    case RECORD_CREATE:
        crash_put_name(disk, record->file, meaning->folder, crash_name(record->path));
        break;
    case RECORD_WRITE:
        crash_write(&disk->files[record->file], record, fate);
        break;
    case RECORD_TRUNCATE:
        crash_grow(&disk->files[record->file], record->size_bytes);
        break;
    case RECORD_RENAME:
        crash_rename(disk, record, meaning);
        break;
    case RECORD_LINK:
        crash_write(&disk->files[record->file], record, CRASH_DONE);
        crash_put_name(disk, record->file, meaning->folder, crash_name(record->target));
        break;
    case RECORD_UNLINK:
        if (meaning->is_folder)
            disk->folders[meaning->folder][0] = '\0';
        else
            crash_put_name(disk, CRASH_FILES_MAX, meaning->folder, crash_name(record->path));
        break;
    case RECORD_SYNC:
    case RECORD_SYNC_DIRECTORY:
        break;
    }
}

static bool crash_is_parent(const char *folder, const char *path)
{
    size_t length = strlen(folder);
    return strncmp(folder, path, length) == 0 && path[length] == '/' &&
           !strchr(path + length + 1, '/');
}

/* Find the folder below the job's folder that @path names. */
static unsigned crash_find_folder(const struct crash *crash, struct crash_disk *disk,
                                  const char *path, bool make)
{
    char name[CRASH_NAME_SIZE];
    const char *begin = path + strlen(crash->recorded) + 1;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(begin, "/"), begin);
    for (unsigned i = 0; i < CRASH_FOLDERS_MAX; i++) {
        if (strcmp(disk->folders[i], name) == 0)
            return i;
    }
    for (unsigned i = 0; make && i < CRASH_FOLDERS_MAX; i++) {
        if (disk->folders[i][0] == '\0')
            return i;
    }
    fail_msg("no folder is called %s", name);
    return 0;
}

static unsigned crash_find_file(const struct crash_disk *disk, unsigned folder, const char *name)
{
    for (unsigned i = 0; i < CRASH_FILES_MAX; i++) {
        if (disk->files[i].folder == folder && strcmp(disk->files[i].name, name) == 0)
            return i;
    }
    return CRASH_FILES_MAX;
}

static bool crash_has_path(const struct record *record)
{
    return record->kind != RECORD_WRITE && record->kind != RECORD_TRUNCATE &&
           record->kind != RECORD_SYNC && record->kind != RECORD_SYNC_DIRECTORY;
}

static void crash_understand_one(struct crash *crash, struct crash_disk *disk, unsigned index)
{
    const struct record *record = &recording.records[index];
    struct crash_meaning *meaning = &crash->meanings[index];
    const char *path = record->kind == RECORD_LINK ? record->target : record->path;
    meaning->is_folder = crash_is_parent(crash->recorded, path);
    meaning->folder = crash_find_folder(crash, disk, path, record->kind == RECORD_MAKE_DIRECTORY);
    if (record->kind != RECORD_RENAME || meaning->is_folder)
        return;
    meaning->file = crash_find_file(disk, meaning->folder, crash_name(path));
    meaning->target_folder = crash_find_folder(crash, disk, record->target, false);
}

/* Resolve the recording's paths as carried out: nothing was lost. */
static void crash_understand(struct crash *crash)
{
    static struct crash_disk disk;
    memset(&disk, 0, sizeof(disk));
    for (unsigned i = 0; i < recording.count; i++) {
        const struct record *record = &recording.records[i];
        assert_true(record->file < CRASH_FILES_MAX);
        if (!crash_has_path(record))
            continue;
        crash_understand_one(crash, &disk, i);
        if (record->kind == RECORD_LINK)
            crash_put_name(&disk, record->file, crash->meanings[i].folder,
                           crash_name(record->target));
        else
            crash_apply(crash, &disk, i, CRASH_DONE);
    }
}

static bool crash_is_durable(unsigned index, unsigned prefix)
{
    const struct record *record = &recording.records[index];
    bool has_target = record->kind == RECORD_LINK || record->kind == RECORD_RENAME;
    const char *name = has_target ? record->target : record->path;
    for (unsigned i = index + 1; i < prefix; i++) {
        const struct record *later = &recording.records[i];
        bool content = record->kind == RECORD_WRITE || record->kind == RECORD_TRUNCATE;
        if (content && later->kind == RECORD_SYNC && later->file == record->file)
            return true;
        if (!content && later->kind == RECORD_SYNC_DIRECTORY && crash_is_parent(later->path, name))
            return true;
    }
    return record->kind == RECORD_SYNC || record->kind == RECORD_SYNC_DIRECTORY;
}

static bool crash_is_visible(const struct crash_disk *disk, const struct crash_file *file)
{
    return file->name[0] != '\0' && disk->folders[file->folder][0] != '\0';
}

static struct hash128 crash_fingerprint(const struct crash_disk *disk)
{
    struct hash_stream *stream = hash_stream_new();
    hash_stream_add(stream, disk->folders, sizeof(disk->folders));
    for (unsigned i = 0; i < CRASH_FILES_MAX; i++) {
        const struct crash_file *file = &disk->files[i];
        if (!crash_is_visible(disk, file))
            continue;
        hash_stream_add(stream, &file->folder, sizeof(file->folder));
        hash_stream_add(stream, file->name, strlen(file->name) + 1);
        hash_stream_add(stream, &file->size_bytes, sizeof(file->size_bytes));
        if (file->size_bytes > 0)
            hash_stream_add(stream, file->content, file->size_bytes);
    }
    struct hash128 result = hash_stream_result(stream);
    hash_stream_free(stream);
    return result;
}

static bool crash_seen_before(struct crash *crash, const struct crash_disk *disk)
{
    struct hash128 print = crash_fingerprint(disk);
    for (unsigned i = 0; i < crash->seen_count; i++) {
        if (hash128_equal(crash->seen[i], print))
            return true;
    }
    assert_true(crash->seen_count < CRASH_SEEN_MAX);
    crash->seen[crash->seen_count++] = print;
    return false;
}

static void crash_path(const struct crash *crash, const struct crash_disk *disk, unsigned folder,
                       char ret_path[256])
{
    snprintf(ret_path, 256, "%s/%s", crash->replay, disk->folders[folder]);
}

static void crash_materialize(const struct crash *crash, const struct crash_disk *disk)
{
    char path[256], inside[256 + CRASH_NAME_SIZE];
    for (unsigned i = 0; i < CRASH_FOLDERS_MAX; i++) {
        crash_path(crash, disk, i, path);
        assert_true(disk->folders[i][0] == '\0' || mkdir(path, 0755) == 0);
    }
    for (unsigned i = 0; i < CRASH_FILES_MAX; i++) {
        const struct crash_file *file = &disk->files[i];
        if (!crash_is_visible(disk, file))
            continue;
        crash_path(crash, disk, file->folder, path);
        snprintf(inside, sizeof(inside), "%s/%s", path, file->name);
        FILE *stream = fopen(inside, "w");
        assert_non_null(stream);
        if (file->size_bytes > 0)
            assert_int_equal(fwrite(file->content, 1, file->size_bytes, stream), file->size_bytes);
        fclose(stream);
    }
}

/* Remove the state and the files that a check has added to it. */
static void crash_clear(const struct crash *crash)
{
    char path[FOLDER_PATH_SIZE], part[FOLDER_PATH_SIZE];
    for (unsigned i = 0; i < recording.count; i++) {
        const struct record *record = &recording.records[i];
        const char *name = record->kind == RECORD_RENAME ? record->target : record->path;
        if (!crash_has_path(record) || !crash->meanings[i].is_folder)
            continue;
        snprintf(path, sizeof(path), "%s/%s", crash->replay, crash_name(name));
        sample_remove(path);
        snprintf(part, sizeof(part), "%s/%s", crash->replay, crash_name(record->path));
        sample_remove(part);
    }
}

static void crash_check_state(struct crash *crash, unsigned prefix, const enum crash_fate *fates,
                              bool finished)
{
    static struct crash_disk disk;
    memset(&disk, 0, sizeof(disk));
    for (unsigned i = 0; i < prefix; i++) {
        if (fates[i] != CRASH_LOST)
            crash_apply(crash, &disk, i, fates[i]);
    }
    if (!crash_seen_before(crash, &disk)) {
        crash_materialize(crash, &disk);
        crash->state_count++;
        crash->check(crash, finished);
        crash_clear(crash);
    }
    for (unsigned i = 0; i < CRASH_FILES_MAX; i++)
        free(disk.files[i].content);
}

struct crash_prefix {
    unsigned length, pending[RECORD_MAX], pending_count;
    enum crash_fate fates[RECORD_MAX];
};

static void crash_set_all(struct crash_prefix *prefix, enum crash_fate fate)
{
    for (unsigned i = 0; i < prefix->pending_count; i++)
        prefix->fates[prefix->pending[i]] = fate;
}

static void crash_all_subsets(struct crash *crash, struct crash_prefix *prefix)
{
    for (unsigned mask = 0; mask < 1u << prefix->pending_count; mask++) {
        for (unsigned i = 0; i < prefix->pending_count; i++)
            prefix->fates[prefix->pending[i]] = mask >> i & 1 ? CRASH_DONE : CRASH_LOST;
        crash_check_state(crash, prefix->length, prefix->fates, false);
    }
}

static void crash_some_subsets(struct crash *crash, struct crash_prefix *prefix)
{
    crash_set_all(prefix, CRASH_LOST);
    crash_check_state(crash, prefix->length, prefix->fates, false);
    for (unsigned i = 0; i < prefix->pending_count; i++) {
        crash_set_all(prefix, CRASH_LOST);
        prefix->fates[prefix->pending[i]] = CRASH_DONE;
        crash_check_state(crash, prefix->length, prefix->fates, false);
        crash_set_all(prefix, CRASH_DONE);
        prefix->fates[prefix->pending[i]] = CRASH_LOST;
        crash_check_state(crash, prefix->length, prefix->fates, false);
    }
    crash_set_all(prefix, CRASH_DONE);
    crash_check_state(crash, prefix->length, prefix->fates, false);
}

static void crash_random_subsets(struct crash *crash, struct crash_prefix *prefix, uint64_t seed)
{
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    for (unsigned round = 0; round < CRASH_RANDOM_STATES; round++) {
        for (unsigned i = 0; i < prefix->pending_count; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            unsigned draw = (unsigned)(random >> 60);
            prefix->fates[prefix->pending[i]] = draw < 5    ? CRASH_LOST
                                                : draw < 13 ? CRASH_DONE
                                                            : CRASH_HALF;
        }
        crash_check_state(crash, prefix->length, prefix->fates, false);
    }
}

static void crash_check_prefix(struct crash *crash, unsigned length)
{
    static struct crash_prefix prefix;
    prefix.length = length;
    prefix.pending_count = 0;
    for (unsigned i = 0; i < length; i++) {
        prefix.fates[i] = CRASH_DONE;
        if (i >= crash->began && !crash_is_durable(i, length))
            prefix.pending[prefix.pending_count++] = i;
    }
    if (prefix.pending_count <= CRASH_EXHAUSTIVE_MAX)
        crash_all_subsets(crash, &prefix);
    else
        crash_some_subsets(crash, &prefix);
    crash_random_subsets(crash, &prefix, length);
    if (length == recording.count) { /* returned operations must stand, with any pending ones */
        crash->seen_count = 0;
        crash_set_all(&prefix, CRASH_DONE);
        crash_check_state(crash, length, prefix.fates, true);
        crash_set_all(&prefix, CRASH_LOST);
        crash_check_state(crash, length, prefix.fates, true);
    }
}

void crash_everywhere(struct crash *crash)
{
    crash_understand(crash);
    for (unsigned length = crash->began; length <= recording.count; length++)
        crash_check_prefix(crash, length);
    print_message("[   INFO   ] %u operations; %u states, %u with the new checkpoint\n",
                  recording.count - crash->began, crash->state_count, crash->present_count);
}

unsigned crash_count(enum record_kind kind)
{
    unsigned count = 0;
    for (unsigned i = 0; i < recording.count; i++)
        count += recording.records[i].kind == kind;
    return count;
}
