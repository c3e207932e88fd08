/* Both backends against one list of expectations, and the meaning of a kernel's result for a
 * write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/io/io.h"
#include "checkpoint/io/io_progress.h"
#include "lib/checkpoint/sample.h"

#define BLOCK  8192
#define BLOCKS 40
#define DEPTH  4

struct fixture {
    const struct io *io;
    struct io_context *context;
    uint8_t *arena;
    char folder[64], path[128];
};

/* tmpfs and disk refuse different things: run on the file system of a user's checkpoints. */
static int set_up(void **state, const struct io *io)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct error error = {0};
    fixture->io = io;
    fixture->arena = aligned_alloc(4096, BLOCK * BLOCKS);
    for (size_t i = 0; i < BLOCK * BLOCKS; i++)
        fixture->arena[i] = (uint8_t)(i * 7 + i / BLOCK);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/firn-io-XXXXXX");
    if (!mkdtemp(fixture->folder))
        return -1;
    snprintf(fixture->path, sizeof(fixture->path), "%s/file", fixture->folder);
    *state = fixture;
    return io->open(DEPTH, fixture->arena, BLOCK * BLOCKS, &fixture->context, &error);
}

static int set_up_threads(void **state)
{
    return set_up(state, io_threads_table());
}

static int set_up_probed(void **state)
{
    const char *why;
    return set_up(state, io_probe(&why));
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    fixture->io->close(fixture->context);
    sample_remove(fixture->folder);
    free(fixture->arena);
    free(fixture);
    return 0;
}

static void test_writes_land_where_they_belong(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    int descriptor = io->create(fixture->context, fixture->path, true);
    assert_true(descriptor >= 0);
    assert_int_equal(io->reserve(fixture->context, descriptor, BLOCK * BLOCKS), 0);
    bool seen[BLOCKS] = {false};
    unsigned posted = 0, finished = 0;
    while (finished < BLOCKS) {
        unsigned block = BLOCKS - 1 - posted; /* backwards: order must not matter */
        int status = posted < BLOCKS
                         ? io->write(fixture->context, descriptor, fixture->arena + block * BLOCK,
                                     BLOCK, block * BLOCK, block)
                         : -EAGAIN;
        if (status == 0) {
            posted++;
            continue;
        }
        assert_int_equal(status, -EAGAIN);
        assert_true(posted - finished <= DEPTH);
        uint64_t user;
        assert_int_equal(io->drain(fixture->context, true, &user), 1);
        assert_true(user < BLOCKS && !seen[user]);
        seen[user] = true;
        finished++;
    }
    uint64_t user;
    assert_int_equal(io->drain(fixture->context, true, &user), 0);
    assert_int_equal(io->drain(fixture->context, false, &user), 0);
    assert_int_equal(io->truncate(fixture->context, descriptor, BLOCK * BLOCKS - 5), 0);
    assert_int_equal(io->sync(fixture->context, descriptor), 0);
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);

    uint8_t *content = malloc(BLOCK * BLOCKS);
    FILE *file = fopen(fixture->path, "r");
    assert_int_equal(fread(content, 1, BLOCK * BLOCKS, file), BLOCK * BLOCKS - 5);
    fclose(file);
    assert_memory_equal(content, fixture->arena, BLOCK * BLOCKS - 5);
    free(content);
}

static void test_reads_bring_what_is_there(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    static uint8_t content[3 * BLOCK + 100];
    uint64_t user = 0;
    memset(content, 0x5a, sizeof(content));
    content[BLOCK + 7] = 1;
    int descriptor = io->create(fixture->context, fixture->path, false);
    assert_int_equal(write(descriptor, content, sizeof(content)), sizeof(content));
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);

    int reading = open(fixture->path, O_RDONLY);
    uint8_t *into = fixture->arena;
    assert_int_equal(io->read(fixture->context, reading, into, BLOCK, BLOCK, BLOCK, 5), 0);
    assert_int_equal(io->drain(fixture->context, true, &user), 1);
    assert_int_equal(user, 5);
    assert_memory_equal(into, content + BLOCK, BLOCK);
    /* The file ends inside the room: enough is enough, and less is not. */
    assert_int_equal(io->read(fixture->context, reading, into, BLOCK, 100, 3 * BLOCK, 6), 0);
    assert_int_equal(io->drain(fixture->context, true, &user), 1);
    assert_memory_equal(into, content + 3 * BLOCK, 100);
    assert_int_equal(io->read(fixture->context, reading, into, BLOCK, 101, 3 * BLOCK, 7), 0);
    assert_int_equal(io->drain(fixture->context, true, &user), -ENODATA);
    assert_int_equal(user, 7);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(io->read(fixture->context, reading, into + i * 64, 64, 64, i, i), 0);
    assert_int_equal(io->read(fixture->context, reading, into, 64, 64, 0, 9), -EAGAIN);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(io->drain(fixture->context, true, &user), 1);
    assert_int_equal(io->drain(fixture->context, true, &user), 0);
    close(reading);
}

static void test_a_failed_write_is_reported_once(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    uint64_t user = 0;
    int descriptor = io->create(fixture->context, fixture->path, false);
    int readonly = open(fixture->path, O_RDONLY);
    assert_int_equal(io->write(fixture->context, readonly, fixture->arena, 100, 0, 77), 0);
    assert_int_equal(io->drain(fixture->context, true, &user), -EBADF);
    assert_int_equal(user, 77);
    assert_int_equal(io->drain(fixture->context, true, &user), 0);
    assert_int_equal(io->write(fixture->context, descriptor, fixture->arena, 100, 0, 78), 0);
    assert_int_equal(io->drain(fixture->context, true, &user), 1);
    assert_int_equal(user, 78);
    close(readonly);
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);
    assert_int_equal(io->sync(fixture->context, descriptor), -EBADF);
}

/* The kernel itself makes a short write at the file size limit, then returns the cause. */
static void test_a_short_write_is_carried_on(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    struct rlimit before, limited;
    uint64_t user;
    int descriptor = io->create(fixture->context, fixture->path, false);
    getrlimit(RLIMIT_FSIZE, &before);
    limited = (struct rlimit){.rlim_cur = 3 * 4096 + 100, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limited);
    assert_int_equal(io->write(fixture->context, descriptor, fixture->arena, 8 * 4096, 0, 1), 0);
    int status = io->drain(fixture->context, true, &user);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, -EFBIG);
    struct stat found;
    assert_int_equal(fstat(descriptor, &found), 0);
    assert_int_equal(found.st_size, 3 * 4096 + 100);
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);
}

static void test_names_are_made_and_moved_with_care(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    char deep[160], other[160];
    snprintf(deep, sizeof(deep), "%s/a/b/c", fixture->folder);
    snprintf(other, sizeof(other), "%s/d", fixture->folder);
    assert_int_equal(io->make_directory(fixture->context, deep), 0);
    assert_int_equal(io->make_directory(fixture->context, deep), 0);
    assert_int_equal(io->make_directory(fixture->context, other), 0);
    assert_int_equal(io->rename(fixture->context, deep, other), -EEXIST);
    assert_int_equal(io->unlink(fixture->context, other), 0);
    assert_int_equal(io->rename(fixture->context, deep, other), 0);
    assert_int_equal(io->sync_directory(fixture->context, fixture->folder), 0);
    assert_int_equal(io->sync_directory(fixture->context, deep), -ENOENT);
    assert_int_equal(io->unlink(fixture->context, deep), -ENOENT);
    snprintf(deep, sizeof(deep), "%s/a", fixture->folder);
    assert_int_equal(io->unlink(fixture->context, deep), -ENOTEMPTY);

    int descriptor = io->create(fixture->context, fixture->path, false);
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);
    assert_int_equal(io->create(fixture->context, fixture->path, true), -EEXIST);
    assert_int_equal(io->make_directory(fixture->context, fixture->path), -ENOTDIR);
    assert_int_equal(io->unlink(fixture->context, fixture->path), 0);
}

static void test_reserving_too_much_says_so_early(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    int descriptor = io->create(fixture->context, fixture->path, true);
    int status = io->reserve(fixture->context, descriptor, (uint64_t)1 << 50);
    assert_true(status == -ENOSPC || status == -EFBIG);
    assert_int_equal(io->close_file(fixture->context, descriptor), 0);
}

static void test_closing_waits_for_what_is_in_flight(void **state)
{
    struct fixture *fixture = *state;
    const struct io *io = fixture->io;
    struct error error = {0};
    int descriptor = io->create(fixture->context, fixture->path, false);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_int_equal(
            io->write(fixture->context, descriptor, fixture->arena, BLOCK, i * BLOCK, i), 0);
    io->close(fixture->context);
    struct stat status;
    assert_int_equal(fstat(descriptor, &status), 0);
    assert_int_equal(status.st_size, DEPTH * BLOCK);
    close(descriptor);
    assert_int_equal(io->open(DEPTH, NULL, 0, &fixture->context, &error), 0);
    struct io_context *none;
    assert_int_equal(io->open(0, NULL, 0, &none, &error), -EINVAL);
    assert_int_equal(io->open(IO_DEPTH_MAX + 1, NULL, 0, &none, &error), -EINVAL);
}

static void test_progress_knows_what_results_mean(void **state)
{
    (void)state;
    static uint8_t data[10 * 4096];
    struct io_progress write = {.data = data,
                                .size_bytes = sizeof(data),
                                .needed_bytes = sizeof(data),
                                .offset = 4096,
                                .granule_bytes = IO_ALIGN};
    assert_int_equal(io_progress_accept(&write, 2 * 4096 + 17), IO_PROGRESS_AGAIN);
    assert_int_equal(write.offset, 3 * 4096); /* the write repeats the interrupted block */
    assert_int_equal(write.size_bytes, 8 * 4096);
    assert_ptr_equal(write.data, data + 2 * 4096);
    for (unsigned i = 0; i < IO_RETRIES_MAX; i++)
        assert_int_equal(io_progress_accept(&write, i % 2 == 0 ? -EINTR : -EAGAIN),
                         IO_PROGRESS_AGAIN);
    assert_int_equal(io_progress_accept(&write, -EINTR), -EINTR);

    write.retries = IO_RETRIES_MAX - 1;
    assert_int_equal(io_progress_accept(&write, 4096),
                     IO_PROGRESS_AGAIN); /* progress resets the bound */
    for (unsigned i = 0; i < IO_RETRIES_MAX; i++)
        assert_int_equal(io_progress_accept(&write, 0), IO_PROGRESS_AGAIN);
    assert_int_equal(io_progress_accept(&write, 0), -EIO);

    write.granule_bytes = 1;
    assert_int_equal(io_progress_accept(&write, 17), IO_PROGRESS_AGAIN);
    assert_int_equal(write.size_bytes, 7 * 4096 - 17);

    write.retries = 0;
    assert_int_equal(io_progress_accept(&write, -ENOSPC), -ENOSPC);
    assert_int_equal(io_progress_accept(&write, 7 * 4096), IO_PROGRESS_DONE);

    struct io_progress read = io_progress_start_read(-1, data, 4 * 4096, 3 * 4096 + 5, 0, 9);
    read.granule_bytes = IO_ALIGN;
    assert_int_equal(io_progress_accept(&read, 2 * 4096 + 17), IO_PROGRESS_AGAIN);
    assert_int_equal(read.size_bytes, 2 * 4096);
    assert_int_equal(read.needed_bytes, 4096 + 5);
    assert_int_equal(io_progress_accept(&read, 4096 + 4), IO_PROGRESS_AGAIN);
    assert_int_equal(io_progress_accept(&read, 0), -ENODATA);
    assert_int_equal(io_progress_accept(&read, 5), IO_PROGRESS_DONE);
}

static void test_probing_says_why(void **state)
{
    (void)state;
    const char *why = NULL;
    const struct io *io = io_probe(&why);
    assert_non_null(io);
    assert_true(strlen(why) > 10);
    print_message("[   INFO   ] %s: %s\n", io->name, why);
}

#define BOTH(test)                                                                                 \
    {#test " (probed)", test, set_up_probed, tear_down, NULL},                                     \
    {                                                                                              \
#test " (threads)", test, set_up_threads, tear_down, NULL                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_writes_land_where_they_belong),
        BOTH(test_reads_bring_what_is_there),
        BOTH(test_a_failed_write_is_reported_once),
        BOTH(test_a_short_write_is_carried_on),
        BOTH(test_names_are_made_and_moved_with_care),
        BOTH(test_reserving_too_much_says_so_early),
        BOTH(test_closing_waits_for_what_is_in_flight),
        cmocka_unit_test(test_progress_knows_what_results_mean),
        cmocka_unit_test(test_probing_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
