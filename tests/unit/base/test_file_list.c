/* Which files paths name: folders, links and globs, sorted, none twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/test_folder.h"

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/file_list.h"

/* Check that the files that @path names contain @text, one after another. */
static void expect_text(const char *path, const char *text)
{
    CLEANUP(file_list_done) struct file_list files = {0};
    CLEANUP(bytes_done) struct bytes read = {0};
    struct error error = {0};

    if (file_list_find("data.path", &path, 1, &files, &error) < 0)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < files.count; i++) {
        CLEANUP(bytes_done) struct bytes content = {0};
        assert_int_equal(file_read(files.files[i].path, 256, &content, &error), 0);
        assert_int_equal(content.size_bytes, files.files[i].size_bytes);
        assert_int_equal(bytes_append(&read, content.data, content.size_bytes), 0);
    }
    assert_int_equal(bytes_append(&read, "", 1), 0);
    assert_string_equal((const char *)read.data, text);
}

static void expect_failure(const char *path, int code, const char *text)
{
    struct file_list files = {0};
    struct error error = {0};

    assert_int_equal(file_list_find("data.path", &path, 1, &files, &error), code);
    assert_true(!files.files);
    assert_memory_equal(error.text, "data.path: ", strlen("data.path: "));
    if (!strstr(error.text, text))
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

static void test_a_folder_is_sorted_and_deep(void **state)
{
    (void)state;
    test_folder_add("d");
    test_folder_add("d/b");
    test_folder_add("d/b/c");
    test_folder_add("d/.hidden");
    test_folder_write_text("d/z", "5");
    test_folder_write_text("d/b.x", "2"); /* '.' sorts before '/' */
    test_folder_write_text("d/b/c/f", "4");
    test_folder_write_text("d/b/A", "3");
    test_folder_write_text("d/.hidden/f", "1");
    test_folder_write_text("d/empty", "");
    expect_text(test_folder_at("d"), "12345");
    expect_text(test_folder_at("d///"), "12345");
}

static void test_links(void **state)
{
    (void)state;
    test_folder_add("d");
    test_folder_add("e");
    test_folder_write_text("e/file", "E");
    test_folder_write_text("d/file", "D");
    assert_int_equal(symlink("../e/file", test_folder_at("d/link")), 0); /* a file: followed */
    assert_int_equal(symlink("../e", test_folder_at("d/folder")),
                     0);                                         /* a folder: not, in a folder */
    assert_int_equal(symlink(".", test_folder_at("d/loop")), 0); /* would never end */
    assert_int_equal(symlink("nowhere", test_folder_at("d/dangling")), 0); /* no data */
    assert_int_equal(symlink("itself", test_folder_at("d/itself")), 0);    /* no data either */
    assert_int_equal(mkfifo(test_folder_at("d/pipe"), 0644), 0);           /* never opened */
    expect_text(test_folder_at("d"), "DE");
    expect_text(test_folder_at("d/folder"), "E"); /* named by the user: followed */
    expect_text(test_folder_at("d/**"), "DE");
    expect_text(test_folder_at("d/fold*/file"), "E"); /* named by a component: followed */

    expect_failure(test_folder_at("d/pipe"), -EINVAL, "neither a file nor a folder");
    expect_failure(test_folder_at("d/dangling"), -ENOENT, "dangling");
}

static void test_globs(void **state)
{
    (void)state;
    test_folder_add("g");
    test_folder_add("g/one");
    test_folder_add("g/one/two");
    test_folder_add("g/.git");
    test_folder_write_text("g/a.c", "a");
    test_folder_write_text("g/b.h", "b");
    test_folder_write_text("g/.c.c", "h");
    test_folder_write_text("g/.git/d.c", "g");
    test_folder_write_text("g/one/c.c", "c");
    test_folder_write_text("g/one/two/d.c", "d");
    test_folder_write_text("g/one/two/e.h", "e");

    expect_text(test_folder_at("g/*.c"), "a");
    expect_text(test_folder_at("g/*"), "ab"); /* files, not folders */
    expect_text(test_folder_at("g/?.[ch]"), "ab");
    expect_text(test_folder_at("g/*/*.c"), "c");
    expect_text(test_folder_at("g/**/*.c"), "acd");
    expect_text(test_folder_at("g/**/**/*.c"), "acd");
    expect_text(test_folder_at("g/**"), "abcde");
    expect_text(test_folder_at("g/**/two/*"), "de");
    expect_text(test_folder_at("g/**/one/**/*.h"), "e");
    expect_text(test_folder_at("g/**/e.h"), "e");
    expect_text(test_folder_at("g/.*.c"), "h");
    expect_text(test_folder_at("g/one/../*.h"), "b");
    expect_text(test_folder_at("/g//one/*.c"), "c");

    test_folder_write_text("g/[x].c", "literal"); /* the name of an existing file is no pattern */
    expect_text(test_folder_at("g/[x].c"), "literal");

    expect_failure(test_folder_at("g/*.none"), -ENOENT, "no file matches");
    expect_failure(test_folder_at("absent/**/*.c"), -ENOENT, "no file matches");
}

static void test_relative_globs(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    test_folder_add("r");
    test_folder_write_text("r/x.c", "x");
    test_folder_write_text("y.c", "y");
    assert_int_equal(chdir(test_folder_root), 0);
    expect_text("*.c", "y");
    expect_text("**/*.c", "xy");
    expect_text("./r/*", "x");
    expect_text(".", "xy");
    assert_int_equal(chdir(before), 0);
}

static void test_too_many_components(void **state)
{
    (void)state;
    char pattern[512] = "";
    for (unsigned i = 0; i < 65; i++)
        strcat(pattern, "/*");
    expect_failure(pattern, -EINVAL, "components");
}

static void test_a_file_named_twice_counts_once(void **state)
{
    (void)state;
    test_folder_add("d");
    test_folder_write_text("d/a", "abc");
    test_folder_write_text("d/b", "def");
    char names[3][256];
    snprintf(names[0], sizeof(names[0]), "%s", test_folder_at("d/b"));
    snprintf(names[1], sizeof(names[1]), "%s", test_folder_at("d"));
    snprintf(names[2], sizeof(names[2]), "%s", test_folder_at("d/*"));
    const char *paths[] = {names[0], names[1], names[2]};
    CLEANUP(file_list_done) struct file_list files = {0};
    struct error error = {0};
    assert_int_equal(file_list_find("data.path", paths, 3, &files, &error), 0);
    assert_int_equal(files.count, 2);
}

static void expect_unreadable(const char *path, const char *text)
{
    test_folder_become_nobody();
    expect_failure(path, -EACCES, text);
    test_folder_become_oneself();
}

static void test_unreadable_entries(void **state)
{
    (void)state;
    test_folder_add("d");
    test_folder_add("d/locked");
    test_folder_write_text("d/open", "abcdefgh");
    test_folder_write_text("d/locked/inside", "x");
    assert_int_equal(chmod(test_folder_at("d/locked"), 0), 0);
    expect_unreadable(test_folder_at("d"), "d/locked: Permission denied");
    expect_unreadable(test_folder_at("d/**/inside"), "d/locked: Permission denied");
    expect_unreadable(test_folder_at("d/locked/inside"), "inside: Permission denied");
    expect_unreadable(test_folder_at("d/locked/*"), "d/locked/*: Permission denied");
    assert_int_equal(chmod(test_folder_at("d/locked"), 0755), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_folder_is_sorted_and_deep),
        IN_FOLDER(test_links),
        IN_FOLDER(test_globs),
        IN_FOLDER(test_relative_globs),
        IN_FOLDER(test_too_many_components),
        IN_FOLDER(test_a_file_named_twice_counts_once),
        IN_FOLDER(test_unreadable_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
