/* The owner of a folder of checkpoints, and the removal of the whole folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/test_folder.h"

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/write/folder_owner.h"
#include "checkpoint/write/io_tuning.h"

static const struct checkpoint_owner owner = {
    .cluster = "blue", .job = "demo", .submission = "12ab34cd", .created = 77};

static void test_what_was_written_first_stays(void **state)
{
    (void)state;
    struct checkpoint_owner other = owner, read;
    struct error error = {0};
    assert_int_equal(mkdir(test_folder_at("demo"), 0755), 0);
    assert_int_equal(checkpoint_owner_read(test_folder_at("demo"), &read, &error), -ENOENT);
    assert_int_equal(checkpoint_owner_write(test_folder_at("demo"), &owner, &error), 0);
    other.created = 78;
    assert_int_equal(checkpoint_owner_write(test_folder_at("demo"), &other, &error), 0);
    assert_int_equal(checkpoint_owner_read(test_folder_at("demo"), &read, &error), 0);
    assert_string_equal(read.cluster, "blue");
    assert_string_equal(read.job, "demo");
    assert_string_equal(read.submission, "12ab34cd");
    assert_int_equal(read.created, 77);
}

static void test_a_damaged_one_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{}", "[1]", "{\"cluster\": 3}",
        "{\"cluster\": \"a\", \"job\": \"b\", \"submission\": \"\", "
        "\"created\": -1}"};
    struct checkpoint_owner read;
    struct error error = {0};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        test_folder_write(CHECKPOINT_OWNER_NAME, texts[i], strlen(texts[i]));
        assert_true(checkpoint_owner_read(test_folder_at("."), &read, &error) < 0);
        assert_true(error.text[0] != '\0');
    }
}

static void make_checkpoints(void)
{
    static const char *const folders[] = {"demo", "demo/step-0000000010", "demo/step-0000000020",
                                          "demo/step-0000000030.g2.part",
                                          "demo/step-0000000005.gone"};
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++)
        assert_int_equal(mkdir(test_folder_at(folders[i]), 0755), 0);
    test_folder_write("demo/step-0000000010/pinned", "", 0);
    test_folder_write("demo/step-0000000020/manifest.json", "{}", 2);
    test_folder_write("demo/step-0000000030.g2.part/rank-0.safetensors", "x", 1);
    test_folder_write("demo/" CHECKPOINT_OWNER_NAME, "{}", 2);
    test_folder_write("demo/" IO_TUNING_FILE_NAME, "{}", 2);
}

static void test_purging_leaves_nothing(void **state)
{
    (void)state;
    size_t count;
    struct stat status;
    struct error error = {0};
    make_checkpoints();
    assert_int_equal(checkpoint_purge(test_folder_at("demo"), &count, &error), 0);
    assert_int_equal(count, 2);
    assert_int_equal(stat(test_folder_at("demo"), &status), -1);
    assert_int_equal(checkpoint_purge(test_folder_at("demo"), &count, &error), -ENOENT);
    assert_int_equal(count, 0);
}

static void test_purging_spares_what_is_no_checkpoint(void **state)
{
    (void)state;
    size_t count;
    struct stat status;
    struct error error = {0};
    make_checkpoints();
    test_folder_write("demo/notes.txt", "mine", 4);
    assert_int_equal(checkpoint_purge(test_folder_at("demo"), &count, &error), -ENOTEMPTY);
    assert_int_equal(count, 2);
    assert_int_equal(stat(test_folder_at("demo/notes.txt"), &status), 0);
    assert_int_equal(stat(test_folder_at("demo/step-0000000020"), &status), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_what_was_written_first_stays),
        IN_FOLDER(test_a_damaged_one_is_refused),
        IN_FOLDER(test_purging_leaves_nothing),
        IN_FOLDER(test_purging_spares_what_is_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
