/*
 * Tests of whole files. This file replaces the system calls that can fail (the program's own
 * definitions win over libc's), so that file_replace() fails at its k-th call for every k: after
 * any failure the name must hold the whole old or the whole new content, and no temporary may stay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

#define NO_FAILURE UINT32_MAX

static unsigned calls_until_failure = NO_FAILURE;
static size_t write_max = SIZE_MAX; /* short writes, as a full pipe or a signal make them */
static char journal[64];            /* the order of the calls: w(rite), s(ync), r(ename) */

static bool must_fail(char call)
{
    size_t length = strlen(journal);
    if (length + 1 < sizeof(journal))
        journal[length] = call;
    if (calls_until_failure == NO_FAILURE)
        return false;
    if (calls_until_failure-- > 0)
        return false;
    calls_until_failure = NO_FAILURE;
    errno = EIO;
    return true;
}

/* The parameters have libc's names. */
ssize_t write(int fd, const void *buf, size_t n)
{
    if (fd > STDERR_FILENO && must_fail('w'))
        return -1;
    size_t count = fd > STDERR_FILENO ? MIN(n, write_max) : n;
    return (ssize_t)syscall(SYS_write, fd, buf, count);
}

int fsync(int fd)
{
    return must_fail('s') ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *old, const char *new)
{
    return must_fail('r') ? -1 : (int)syscall(SYS_rename, old, new);
}

static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/firn-test-file-XXXXXX");
    if (!folder || !mkdtemp(folder))
        return -1;
    *state = folder;
    calls_until_failure = NO_FAILURE;
    write_max = SIZE_MAX;
    memset(journal, 0, sizeof(journal));
    return chdir(folder);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static int leave_folder(void **state)
{
    int status = nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return status | chdir("/tmp");
}

static unsigned entry_count(const char *folder)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2; /* "." and ".." */
}

static void assert_content(const char *path, const char *expected)
{
    struct bytes content = {0};
    struct error error = {0};
    assert_int_equal(file_read(path, 1 << 20, &content, &error), 0);
    assert_string_equal((char *)content.data, expected);
    assert_int_equal(content.size_bytes, strlen(expected));
    bytes_done(&content);
}

static void test_read_is_bounded_and_closed_by_a_zero(void **state)
{
    (void)state;
    struct bytes content = {0};
    struct error error = {0};
    assert_int_equal(file_replace("five", "abcde", 5, 0600, &error), 0);
    assert_int_equal(file_read("five", 5, &content, &error), 0);
    assert_int_equal(content.size_bytes, 5);
    assert_string_equal((char *)content.data, "abcde");
    bytes_done(&content);
    assert_int_equal(file_read("five", 4, &content, &error), -EFBIG);
    assert_non_null(strstr(error.text, "five"));
    assert_null(content.data);
}

static void test_an_empty_file_reads_as_an_empty_text(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(file_replace("empty", "", 0, 0600, &error), 0);
    assert_content("empty", "");
}

static void test_large_files_survive_short_writes(void **state)
{
    (void)state;
    enum { SIZE = 200001 };
    char *text = malloc(SIZE + 1);
    struct error error = {0};
    assert_non_null(text);
    for (unsigned i = 0; i < SIZE; i++)
        text[i] = (char)('a' + i % 23);
    text[SIZE] = '\0';
    write_max = 4099;
    assert_int_equal(file_replace("large", text, SIZE, 0600, &error), 0);
    assert_content("large", text);
    free(text);
}

static void test_what_cannot_be_read_says_why(void **state)
{
    (void)state;
    struct bytes content = {0};
    struct error error = {0};
    assert_int_equal(file_read("absent", 10, &content, &error), -ENOENT);
    assert_string_equal(error.text, "cannot open absent: No such file or directory");
    assert_int_equal(file_read(".", 10, &content, &error), -EISDIR);
}

static void test_replace_honours_the_umask(void **state)
{
    (void)state;
    struct stat status;
    struct error error = {0};
    mode_t old_mask = umask(077);
    assert_int_equal(file_replace("secret", "x", 1, 0644, &error), 0);
    umask(old_mask);
    assert_int_equal(stat("secret", &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
}

static void test_replace_syncs_before_the_name_and_after(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(file_replace("a", "x", 1, 0600, &error), 0);
    assert_string_equal(journal, "wsrs");
}

static void test_a_failure_at_any_call_leaves_old_or_new(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(file_make_directories("d", 0700, &error), 0);
    assert_int_equal(file_replace("d/a", "old", 3, 0600, &error), 0);
    int status = -EIO;
    unsigned k;
    for (k = 0; status < 0; k++) {
        memset(journal, 0, sizeof(journal));
        calls_until_failure = k;
        status = file_replace("d/a", "new", 3, 0600, &error);
        calls_until_failure = NO_FAILURE;
        /* Only the sync of the directory comes after the name has changed. */
        assert_content("d/a", strchr(journal, 'r') && k != 2 ? "new" : "old");
        assert_int_equal(entry_count("d"), 1);
        assert_int_equal(status, k < 4 ? -EIO : 0);
        assert_int_equal(file_replace("d/a", status < 0 ? "old" : "new", 3, 0600, &error), 0);
    }
    assert_int_equal(k, 5);
}

static void test_replace_in_an_absent_folder_fails(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(file_replace("no/where", "x", 1, 0600, &error), -ENOENT);
    assert_non_null(strstr(error.text, "no/where"));
}

static void test_directories_are_made_to_any_depth_twice(void **state)
{
    (void)state;
    struct error error = {0};
    char absolute[256];
    assert_int_equal(file_make_directories("a/b//c/", 0700, &error), 0);
    assert_int_equal(file_make_directories("a/b/c", 0700, &error), 0);
    assert_int_equal(entry_count("a/b"), 1);
    snprintf(absolute, sizeof(absolute), "%s/x/y", (char *)*state);
    assert_int_equal(file_make_directories(absolute, 0700, &error), 0);
    assert_int_equal(file_sync_directory(absolute, &error), 0);
    assert_int_equal(file_make_directories("", 0700, &error), -EINVAL);
}

static void test_a_file_in_the_way_is_named(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(file_replace("file", "x", 1, 0600, &error), 0);
    assert_int_equal(file_make_directories("file/sub", 0700, &error), -ENOTDIR);
    assert_string_equal(error.text, "cannot create the directory file: Not a directory");
    assert_int_equal(file_sync_directory("file", &error), -ENOTDIR);
}

#define in_folder(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_folder(test_read_is_bounded_and_closed_by_a_zero),
        in_folder(test_an_empty_file_reads_as_an_empty_text),
        in_folder(test_large_files_survive_short_writes),
        in_folder(test_what_cannot_be_read_says_why),
        in_folder(test_replace_honours_the_umask),
        in_folder(test_replace_syncs_before_the_name_and_after),
        in_folder(test_a_failure_at_any_call_leaves_old_or_new),
        in_folder(test_replace_in_an_absent_folder_fails),
        in_folder(test_directories_are_made_to_any_depth_twice),
        in_folder(test_a_file_in_the_way_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
