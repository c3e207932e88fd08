/*
 * Refusals by the machine: every message names the file or folder and the cause for the operator,
 * and after each refusal the same writer saves again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "lib/checkpoint/fault_io.h"
#include "lib/checkpoint/sample.h"

static char folder[64];
static struct checkpoint_writer *writer;

static int set_up(void **state)
{
    (void)state;
    fault.inner = io_threads_table();
    fault_disarm();
    writer = sample_writer(fault_table(io_threads_table()), 0);
    sample_folder(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    checkpoint_writer_stop(writer);
    sample_remove(folder);
    return 0;
}

static void assert_says(const struct error *error, int code, const char *where)
{
    if (error->code != code || !strstr(error->text, where) || !strstr(error->text, strerror(-code)))
        fail_msg("%d: \"%s\" does not name %s and \"%s\"", error->code, error->text, where,
                 strerror(-code));
}

/* The first operation of a save makes the folder, and the fourth one creates a file in it. */
static void test_a_save_says_what_refuses_it(void **state)
{
    static const int codes[] = {-EROFS, -EACCES, -ENOSPC, -EDQUOT, -ENOTDIR, -ESTALE};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        for (uint64_t operation = 0; operation < 6; operation++) {
            struct error error = {0};
            fault_arm(operation, codes[i], false, true);
            assert_int_equal(
                sample_save(writer, fault_table(io_threads_table()), folder, 3, 1, &error),
                codes[i]);
            fault_disarm();
            assert_says(&error, codes[i], folder);
            assert_non_null(strstr(error.text, "step-0000000003"));
        }
    }
    struct error error = {0};
    sample_remove(folder);
    assert_int_equal(sample_save(writer, fault_table(io_threads_table()), folder, 4, 1, &error), 0);
    assert_int_equal(sample_check(folder, 4, &error), 0);
}

/* A file in the folder's place stands for an unusable folder: not even root can pass it. */
static void test_a_folder_that_has_gone_is_named(void **state)
{
    struct error error = {0};
    char blocked[128];
    (void)state;
    snprintf(blocked, sizeof(blocked), "%s/taken", folder);
    int descriptor = open(blocked, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(sample_save(writer, fault_table(io_threads_table()), blocked, 3, 1, &error),
                     -ENOTDIR);
    assert_says(&error, -ENOTDIR, blocked);
    /* The writer makes a vanished folder again, with its parents. */
    sample_remove(folder);
    assert_int_equal(sample_save(writer, fault_table(io_threads_table()), folder, 3, 1, &error), 0);
    assert_int_equal(sample_check(folder, 3, &error), 0);
}

/* In a child that runs as nobody: root may read everything. Return 0: the message was right. */
static int open_as_nobody(const char *path, const char *file)
{
    struct checkpoint_reader *reader;
    struct error error = {0};
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 77;
    int status = checkpoint_open(path, &reader, &error);
    fprintf(stderr, "%s\n", error.text);
    return status == -EACCES && strstr(error.text, file) && strstr(error.text, strerror(EACCES)) &&
                   !checkpoint_is_lost(path, status)
               ? 0
               : 1;
}

static void test_what_may_not_be_read_is_named_and_not_lost(void **state)
{
    static const char *const files[] = {"manifest.json", "optimizer-00001-of-00001.safetensors"};
    char path[FOLDER_PATH_SIZE], file[FOLDER_FILE_SIZE];
    struct error error = {0};
    (void)state;
    if (getuid() != 0)
        skip();
    assert_int_equal(sample_save(writer, fault_table(io_threads_table()), folder, 3, 1, &error), 0);
    checkpoint_path(folder, 3, path);
    assert_int_equal(chmod(folder, 0755), 0);
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        int status;
        folder_file_path(path, files[i], file);
        assert_int_equal(chmod(file, 0600), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(open_as_nobody(path, files[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(status, 0);
        assert_int_equal(chmod(file, 0644), 0);
    }
}

/* Return 0: a writer whose arena does not fit refused to start, and its message has the arena's
 * size. */
static int start_without_memory(void)
{
    const struct rlimit limit = {(rlim_t)512 << 20, (rlim_t)512 << 20};
    const struct checkpoint_writer_options options = {.io = io_threads_table(),
                                                      .arena_bytes = (size_t)1 << 30};
    struct checkpoint_writer *none;
    struct error error = {0};
    setrlimit(RLIMIT_AS, &limit);
    int status = checkpoint_writer_start(&options, &none, &error);
    fprintf(stderr, "%s\n", error.text);
    return status == -ENOMEM && strstr(error.text, "1073741824") ? 0 : 1;
}

static void test_an_arena_that_does_not_fit_is_refused_at_start(void **state)
{
    int status;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their own memory is beyond any limit */
#endif
    pid_t child = fork();
    if (child == 0)
        _exit(start_without_memory());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_save_says_what_refuses_it),
        TEST(test_a_folder_that_has_gone_is_named),
        TEST(test_what_may_not_be_read_is_named_and_not_lost),
        TEST(test_an_arena_that_does_not_fit_is_refused_at_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
