/*
 * Power cuts, enumerated. All operations of one save and commit are recorded. For every prefix of
 * them the operations that no sync has made durable yet may or may not have reached the disk, in
 * any combination, and a write may have reached it by half; the states that this allows are built
 * as real folders and read. What must hold in each: the old checkpoint is there, and the final name
 * is either absent or has a complete, valid checkpoint behind it; once the commit has returned it
 * is there. With frozen units the new checkpoint links files of the old one.
 *
 * The combinations: all 2^p while p is small; else none, all, each one alone, each one missing, and
 * random ones from a fixed seed, with halves. A state that was seen before is not read again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "checkpoint/folder.h"
#include "unit/checkpoint/record_io.h"
#include "unit/checkpoint/sample.h"
#include "unit/checkpoint/two_nodes.h"

#define OLD            1
#define NEW            2
#define FILES_MAX      32
#define EXHAUSTIVE_MAX 8
#define RANDOM_STATES  40
#define SEEN_MAX       65536

enum fate { LOST, DONE, HALF };

struct disk_file {
    uint8_t *content;
    size_t size_bytes;
    char name[MANIFEST_FILE_SIZE]; /* empty: no name points to it */
};

/* The model of the one folder that a save changes; its files, and the name that points to it. */
struct disk {
    struct disk_file files[FILES_MAX];
    char folder[1280]; /* empty: no name points to it */
};

struct crash {
    char recorded[64]; /* the folder that the recording ran in */
    char replay[64];   /* where states are built; has the old checkpoint */
    struct hash128 seen[SEEN_MAX];
    unsigned seen_count, complete_count, absent_count;
};

static void grow(struct disk_file *file, size_t size_bytes)
{
    if (size_bytes > file->size_bytes) {
        file->content = realloc(file->content, size_bytes);
        memset(file->content + file->size_bytes, 0, size_bytes - file->size_bytes);
    }
    file->size_bytes = size_bytes;
}

static void apply_write(struct disk_file *file, const struct record *record, enum fate fate)
{
    size_t size = fate == HALF ? record->size_bytes / 2 / 512 * 512 : record->size_bytes;
    if (record->offset + size > file->size_bytes)
        grow(file, (size_t)record->offset + size);
    if (size > 0)
        memcpy(file->content + record->offset, record->data, size);
}

static const char *last_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static void apply_unlink(struct disk *disk, const struct record *record)
{
    for (unsigned i = 0; i < FILES_MAX; i++) {
        if (strcmp(disk->files[i].name, last_name(record->path)) == 0)
            disk->files[i].name[0] = '\0';
    }
}

static void apply(struct disk *disk, const struct record *record, enum fate fate)
{
    switch (record->kind) {
    case RECORD_MAKE_DIRECTORY:
        snprintf(disk->folder, sizeof(disk->folder), "%s", last_name(record->path));
        break;
    case RECORD_CREATE:
        assert_true(record->file < FILES_MAX);
        snprintf(disk->files[record->file].name, MANIFEST_FILE_SIZE, "%s", last_name(record->path));
        break;
    case RECORD_WRITE:
        apply_write(&disk->files[record->file], record, fate);
        break;
    case RECORD_TRUNCATE:
        grow(&disk->files[record->file], record->size_bytes);
        break;
    case RECORD_RENAME:
        snprintf(disk->folder, sizeof(disk->folder), "%s", last_name(record->target));
        break;
    case RECORD_LINK:
        assert_true(record->file < FILES_MAX);
        apply_write(&disk->files[record->file], record, DONE);
        snprintf(disk->files[record->file].name, MANIFEST_FILE_SIZE, "%s",
                 last_name(record->target));
        break;
    case RECORD_UNLINK:
        apply_unlink(disk, record);
        break;
    case RECORD_SYNC:
    case RECORD_SYNC_DIRECTORY:
        break;
    }
}

/* The folder whose sync makes a change of names durable. */
static bool is_parent(const char *folder, const char *path)
{
    size_t length = strlen(folder);
    return strncmp(folder, path, length) == 0 && path[length] == '/' &&
           strchr(path + length + 1, '/') == NULL;
}

static bool is_durable(unsigned index, unsigned prefix)
{
    const struct record *record = &recording.records[index];
    const char *name = record->kind == RECORD_LINK ? record->target : record->path;
    for (unsigned i = index + 1; i < prefix; i++) {
        const struct record *later = &recording.records[i];
        bool content = record->kind == RECORD_WRITE || record->kind == RECORD_TRUNCATE;
        if (content && later->kind == RECORD_SYNC && later->file == record->file)
            return true;
        if (!content && later->kind == RECORD_SYNC_DIRECTORY && is_parent(later->path, name))
            return true;
    }
    return record->kind == RECORD_SYNC || record->kind == RECORD_SYNC_DIRECTORY;
}

static struct hash128 fingerprint(const struct disk *disk)
{
    struct hash_stream *stream = hash_stream_new();
    hash_stream_add(stream, disk->folder, strlen(disk->folder) + 1);
    for (unsigned i = 0; disk->folder[0] != '\0' && i < FILES_MAX; i++) {
        const struct disk_file *file = &disk->files[i];
        if (file->name[0] == '\0')
            continue;
        hash_stream_add(stream, file->name, strlen(file->name) + 1);
        hash_stream_add(stream, &file->size_bytes, sizeof(file->size_bytes));
        if (file->size_bytes > 0)
            hash_stream_add(stream, file->content, file->size_bytes);
    }
    struct hash128 result = hash_stream_result(stream);
    hash_stream_free(stream);
    return result;
}

static bool seen_before(struct crash *crash, const struct disk *disk)
{
    struct hash128 print = fingerprint(disk);
    for (unsigned i = 0; i < crash->seen_count; i++) {
        if (hash128_equal(crash->seen[i], print))
            return true;
    }
    assert_true(crash->seen_count < SEEN_MAX);
    crash->seen[crash->seen_count++] = print;
    return false;
}

static void materialize(const struct crash *crash, const struct disk *disk, char ret_path[1344])
{
    snprintf(ret_path, 1344, "%s/%s", crash->replay, disk->folder);
    assert_int_equal(mkdir(ret_path, 0755), 0);
    for (unsigned i = 0; i < FILES_MAX; i++) {
        char path[1536];
        const struct disk_file *file = &disk->files[i];
        if (file->name[0] == '\0')
            continue;
        snprintf(path, sizeof(path), "%s/%s", ret_path, file->name);
        FILE *stream = fopen(path, "w");
        assert_non_null(stream);
        if (file->size_bytes > 0)
            assert_int_equal(fwrite(file->content, 1, file->size_bytes, stream), file->size_bytes);
        fclose(stream);
    }
}

/* What a restart sees. */
static void check_restart(struct crash *crash, bool must_be_new)
{
    uint64_t *steps;
    size_t count;
    char path[1024];
    struct error error = {0};
    assert_int_equal(checkpoint_list(crash->replay, &steps, &count, &error), 0);
    assert_true(count == 1 || count == 2);
    assert_int_equal(steps[count - 1], OLD);
    checkpoint_path(crash->replay, NEW, path);
    bool named = access(path, F_OK) == 0;
    assert_int_equal(count == 2, named); /* the name is there only with all that it promises */
    if (named && sample_check(crash->replay, NEW, &error) != 0)
        fail_msg("a mixture: %s", error.text);
    assert_true(named || !must_be_new);
    crash->complete_count += named;
    crash->absent_count += !named;
    free(steps);
}

static void check_state(struct crash *crash, unsigned prefix, const enum fate *fates,
                        bool must_be_new)
{
    struct disk disk = {0};
    for (unsigned i = 0; i < prefix; i++) {
        if (fates[i] != LOST)
            apply(&disk, &recording.records[i], fates[i]);
    }
    if (!seen_before(crash, &disk)) {
        char path[1344] = "";
        if (disk.folder[0] != '\0')
            materialize(crash, &disk, path);
        check_restart(crash, must_be_new);
        if (path[0] != '\0')
            sample_remove(path);
    }
    for (unsigned i = 0; i < FILES_MAX; i++)
        free(disk.files[i].content);
}

struct prefix {
    unsigned length, pending[RECORD_MAX], pending_count;
    enum fate fates[RECORD_MAX];
};

static void set_all(struct prefix *prefix, enum fate fate)
{
    for (unsigned i = 0; i < prefix->pending_count; i++)
        prefix->fates[prefix->pending[i]] = fate;
}

static void check_all_subsets(struct crash *crash, struct prefix *prefix)
{
    for (unsigned mask = 0; mask < 1u << prefix->pending_count; mask++) {
        for (unsigned i = 0; i < prefix->pending_count; i++)
            prefix->fates[prefix->pending[i]] = mask >> i & 1 ? DONE : LOST;
        check_state(crash, prefix->length, prefix->fates, false);
    }
}

static void check_some_subsets(struct crash *crash, struct prefix *prefix)
{
    set_all(prefix, LOST);
    check_state(crash, prefix->length, prefix->fates, false);
    for (unsigned i = 0; i < prefix->pending_count; i++) {
        set_all(prefix, LOST);
        prefix->fates[prefix->pending[i]] = DONE;
        check_state(crash, prefix->length, prefix->fates, false);
        set_all(prefix, DONE);
        prefix->fates[prefix->pending[i]] = LOST;
        check_state(crash, prefix->length, prefix->fates, false);
    }
    set_all(prefix, DONE);
    check_state(crash, prefix->length, prefix->fates, false);
}

static void check_random_subsets(struct crash *crash, struct prefix *prefix, uint64_t seed)
{
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    for (unsigned round = 0; round < RANDOM_STATES; round++) {
        for (unsigned i = 0; i < prefix->pending_count; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            unsigned draw = (unsigned)(random >> 60);
            prefix->fates[prefix->pending[i]] = draw < 5 ? LOST : draw < 13 ? DONE : HALF;
        }
        check_state(crash, prefix->length, prefix->fates, false);
    }
}

static void check_prefix(struct crash *crash, unsigned length)
{
    static struct prefix prefix;
    prefix.length = length;
    prefix.pending_count = 0;
    for (unsigned i = 0; i < length; i++) {
        prefix.fates[i] = DONE;
        if (!is_durable(i, length))
            prefix.pending[prefix.pending_count++] = i;
    }
    if (length == recording.count) {
        assert_int_equal(prefix.pending_count, 0); /* a returned commit owes the disk nothing */
        crash->seen_count = 0;
        check_state(crash, length, prefix.fates, true);
        return;
    }
    if (prefix.pending_count <= EXHAUSTIVE_MAX)
        check_all_subsets(crash, &prefix);
    else
        check_some_subsets(crash, &prefix);
    check_random_subsets(crash, &prefix, length);
}

static void check_all_prefixes(struct crash *crash, unsigned absent_least)
{
    struct error error = {0};
    for (unsigned length = 0; length <= recording.count; length++)
        check_prefix(crash, length);
    print_message("[   INFO   ] %u operations; %u states with the new checkpoint, %u without\n",
                  recording.count, crash->complete_count, crash->absent_count);
    assert_true(crash->complete_count > 0 && crash->absent_count > absent_least);
    if (sample_check(crash->replay, OLD, &error) != 0)
        fail_msg("the old one: %s", error.text);
}

static unsigned count_links(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < recording.count; i++)
        count += recording.records[i].kind == RECORD_LINK;
    return count;
}

static void crash_everywhere(unsigned frozen)
{
    static struct crash crash;
    struct error error = {0};
    memset(&crash, 0, sizeof(crash));
    sample_frozen = frozen;
    sample_folder(crash.recorded);
    sample_folder(crash.replay);
    sample_write(crash.replay, OLD, 1);
    sample_write(crash.recorded, OLD, 1);
    const struct io *io = record_table(io_threads_table());
    struct checkpoint_writer *writer = sample_writer(io, 4096);
    if (sample_save(writer, io, crash.recorded, NEW, 2, &error) != 0)
        fail_msg("%s", error.text);
    checkpoint_writer_stop(writer);
    assert_int_equal(count_links(), frozen);

    check_all_prefixes(&crash, 500);
    record_done();
    sample_remove(crash.recorded);
    sample_remove(crash.replay);
    sample_frozen = 0;
}

static void old_or_new_after_every_crash(void **state)
{
    (void)state;
    crash_everywhere(0);
}

static void old_or_new_with_links_between_them(void **state)
{
    (void)state;
    crash_everywhere(5);
}

/* The node that keeps copies: its own share, the one it fetches, the manifest, and the name. */
static void crash_a_keeper(unsigned frozen)
{
    static struct crash crash;
    struct two_nodes nodes;
    struct error error = {0};
    memset(&crash, 0, sizeof(crash));
    sample_frozen = frozen;
    two_nodes_start(&nodes);
    sample_folder(crash.replay);
    sample_write(crash.replay, OLD, 1);
    if (two_nodes_save(&nodes, io_threads_table(), OLD, &error) != 0 ||
        two_nodes_save(&nodes, record_table(io_threads_table()), NEW, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(count_links(), frozen);
    check_all_prefixes(&crash, 50);
    record_done();
    two_nodes_stop(&nodes);
    sample_remove(crash.replay);
    sample_frozen = 0;
}

static void old_or_new_on_a_node_with_copies(void **state)
{
    (void)state;
    crash_a_keeper(0);
    crash_a_keeper(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_or_new_after_every_crash),
        cmocka_unit_test(old_or_new_with_links_between_them),
        cmocka_unit_test(old_or_new_on_a_node_with_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
