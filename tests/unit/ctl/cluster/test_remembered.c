/* The picture of a cluster that firnctl keeps for the time when etcd is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ctl/cluster/remembered.h"

static char folder[] = "/tmp/firn-remembered-XXXXXX", path[REMEMBERED_PATH_SIZE];

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1))
        return -1;
    return remembered_path("http://127.0.0.1:1", "c", path) ? 0 : -1;
}

static int end(void **state)
{
    char below[64];
    (void)state;
    unlink(path);
    snprintf(below, sizeof(below), "%s/firn", folder);
    rmdir(below);
    return rmdir(folder);
}

static int take(void *context, const struct kv_entry *entries, size_t count, struct error *error)
{
    (void)context;
    (void)error;
    assert_int_equal(count, 2);
    assert_string_equal(entries[0].key, "/firn/v1/c/nodes/a");
    assert_string_equal(entries[0].value, "{\"http\":\"h:1\"}");
    assert_non_null(strstr(entries[1].value, "\"key\":\"0000\""));
    return 7;
}

static void test_what_is_saved_is_loaded_without_keys(void **state)
{
    static const char node[] = "{\"http\": \"h:1\"}", plan[] = "{\"key\":\"cafe\",\"n\":1}";
    const struct kv_entry entries[] = {
        {.key = "/firn/v1/c/nodes/a", .value = node, .value_bytes = sizeof(node) - 1},
        {.key = "/firn/v1/c/leader", .value = "a", .value_bytes = 1}, /* no JSON */
        {.key = "/firn/v1/c/jobs/j/generation", .value = plan, .value_bytes = sizeof(plan) - 1},
    };
    struct bytes text = {0};
    struct error error = {0};
    struct stat found;
    uint64_t unix_ns = 0;
    (void)state;
    assert_int_equal(remembered_load(path, take, NULL, &unix_ns, &error), -ENOENT);
    remembered_save(path, entries, 3);
    assert_int_equal(remembered_load(path, take, NULL, &unix_ns, &error), 7);
    assert_true(unix_ns > 0);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(file_read(path, 1 << 20, &text, &error), 0);
    assert_null(strstr((const char *)text.data, "cafe"));
    bytes_done(&text);
    assert_int_equal(file_replace(path, "{", 1, 0600, &error), 0);
    assert_true(remembered_load(path, take, NULL, &unix_ns, &error) < 0);
}

static void path_of(unsigned i, char ret[REMEMBERED_PATH_SIZE])
{
    char name[16];
    snprintf(name, sizeof(name), "c%u", i);
    assert_true(remembered_path("http://127.0.0.1:1", name, ret));
}

static void test_clusters_of_long_ago_are_forgotten(void **state)
{
    char one[REMEMBERED_PATH_SIZE];
    (void)state;
    unlink(path); /* of the other test */
    for (unsigned i = 0; i < REMEMBERED_FILES_MAX + 3; i++) {
        const struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        path_of(i, one);
        remembered_save(one, NULL, 0);
        assert_int_equal(utimensat(AT_FDCWD, one, times, 0), 0);
    }
    for (unsigned i = 0; i < REMEMBERED_FILES_MAX + 3; i++) {
        path_of(i, one);
        assert_int_equal(unlink(one), i < 3 ? -1 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_is_loaded_without_keys),
        cmocka_unit_test(test_clusters_of_long_ago_are_forgotten),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
