/* The bounded folder of data digests: which files go first, and which stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "lib/base/test_folder.h"
#include "model/data/digest_folder.h"

#define NO_LIMIT UINT64_MAX

/* Make the file of a key, last used at 1000 + @key; with @ending, a part of its name. */
static void make_file(uint64_t key, const char *ending, size_t size_bytes, char ret_path[512])
{
    const struct timespec times[] = {{.tv_sec = 1000 + (time_t)key},
                                     {.tv_sec = 1000 + (time_t)key}};
    static const char content[100];
    char name[HASH128_TEXT_SIZE], file[64];

    hash128_text((struct hash128){key, ~key}, name);
    snprintf(file, sizeof(file), "%s%s", name, ending);
    test_folder_write(file, content, size_bytes);
    snprintf(ret_path, 512, "%s", test_folder_at(file));
    assert_int_equal(utimensat(AT_FDCWD, ret_path, times, 0), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void test_oldest_go_first(void **state)
{
    char paths[10][512];

    (void)state;
    for (unsigned i = 0; i < 10; i++) /* the folder's order is none of theirs */
        make_file((7 * i + 3) % 10, "", 10, paths[(7 * i + 3) % 10]);
    digest_folder_limit(test_folder_at(""), 10, NO_LIMIT);
    assert_true(is_there(paths[0]));
    digest_folder_limit(test_folder_at(""), 4, NO_LIMIT);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(is_there(paths[i]), i >= 6);
    digest_folder_limit(test_folder_at(""), 4, 25);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(is_there(paths[i]), i >= 8);
    digest_folder_limit(test_folder_at(""), 4, 0);
    assert_false(is_there(paths[9]));
    digest_folder_limit(test_folder_at(""), 4, 0);
    digest_folder_limit("/nowhere/at/all", 4, 0);
}

static void test_files_of_entries_go_too(void **state)
{
    char counts[512], temporary[512];

    (void)state;
    make_file(1, ".data.mask.1024", 100, counts);
    make_file(2, ".tmp-0000aa", 0, temporary);
    digest_folder_limit(test_folder_at(""), 0, NO_LIMIT);
    assert_false(is_there(counts) || is_there(temporary));
}

/* A process reads that data. */
static void test_locked_entries_stay(void **state)
{
    char path[512];

    (void)state;
    make_file(1, "", 10, path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(descriptor >= 0 && flock(descriptor, LOCK_EX) == 0);
    digest_folder_limit(test_folder_at(""), 0, 0);
    assert_true(is_there(path));
    close(descriptor);
    digest_folder_limit(test_folder_at(""), 0, 0);
    assert_false(is_there(path));
}

static void test_files_of_others_stay(void **state)
{
    static const char *const names[] = {"readme", "0123456789abcdef0123456789abcde",
                                        "0123456789abcdef0123456789abcdeg"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        test_folder_write_text(names[i], "of somebody else");
    test_folder_add("0123456789abcdef0123456789abcdef");
    digest_folder_limit(test_folder_at(""), 0, 0);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        assert_true(is_there(test_folder_at(names[i])));
    assert_true(is_there(test_folder_at("0123456789abcdef0123456789abcdef")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_oldest_go_first),
        IN_FOLDER(test_files_of_entries_go_too),
        IN_FOLDER(test_locked_entries_stay),
        IN_FOLDER(test_files_of_others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
