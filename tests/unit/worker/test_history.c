/* Metrics that travel with a checkpoint. */
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

#include "base/file.h"
#include "worker/history.h"

static char folder[64], path[96];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-history-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/run.jsonl", folder);
    return 0;
}

static int tear_down(void **state)
{
    char name[128];
    (void)state;
    snprintf(name, sizeof(name), "%s/" HISTORY_NAME, folder);
    unlink(name);
    snprintf(name, sizeof(name), "%s/other.jsonl", folder);
    unlink(name);
    unlink(path);
    return rmdir(folder);
}

static void write_steps(const char *where, uint64_t steps)
{
    struct metrics *metrics;
    struct error error = {0};

    assert_int_equal(metrics_open(where, &metrics, &error), 0);
    for (uint64_t step = 1; step <= steps; step++) {
        struct metrics_line line = {.job = "j", .step = step, .loss = 1.0 / (double)step};
        assert_int_equal(metrics_append(metrics, &line, &error), 0);
    }
    metrics_close(metrics);
}

static void test_lines_up_to_the_step_travel(void **state)
{
    struct manifest manifest = {0};
    struct metrics *metrics;
    struct error error = {0};
    struct bytes text = {0};
    char other[128], kept[128];
    (void)state;
    write_steps(path, 9);
    FILE *file = fopen(path, "a");
    fputs("{\"job\":\"j\",\"step\":1", file); /* the scribe is just writing */
    fclose(file);
    assert_int_equal(history_save(path, 6, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 1);
    assert_string_equal(manifest.files[0].name, "metrics.jsonl");
    snprintf(kept, sizeof(kept), "%s/" HISTORY_NAME, folder);
    assert_int_equal(file_read(kept, 1 << 20, &text, &error), 0);
    assert_int_equal(manifest.files[0].size_bytes, text.size_bytes);
    assert_int_equal(manifest.files[0].chunk_crcs[0], hash_crc32c(0, text.data, text.size_bytes));

    /* A node that has seen nothing, and one that has seen some of it. */
    snprintf(other, sizeof(other), "%s/other.jsonl", folder);
    for (unsigned seen = 0; seen < 10; seen += 4) {
        unlink(other);
        write_steps(other, seen);
        assert_int_equal(metrics_open(other, &metrics, &error), 0);
        assert_int_equal(history_take(folder, &manifest, metrics, &error), 0);
        assert_int_equal(metrics_last_step(metrics), seen > 6 ? seen : 6);
        metrics_close(metrics);
    }

    /* A wrong bit anywhere: none of its lines is taken. */
    unlink(other);
    assert_int_equal(metrics_open(other, &metrics, &error), 0);
    for (size_t at = 0; at < text.size_bytes; at += 37) {
        text.data[at] ^= 1;
        assert_int_equal(file_replace(kept, text.data, text.size_bytes, 0644, &error), 0);
        text.data[at] ^= 1;
        assert_int_equal(history_take(folder, &manifest, metrics, &error), -EBADMSG);
        assert_non_null(strstr(error.text, kept));
        assert_int_equal(metrics_last_step(metrics), 0);
    }
    metrics_close(metrics);
    bytes_done(&text);
    manifest_done(&manifest);
}

static void test_no_history_is_none(void **state)
{
    struct manifest manifest = {0};
    struct metrics *metrics;
    struct error error = {0};
    (void)state;
    assert_int_equal(history_save(path, 6, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 0);
    write_steps(path, 3);
    assert_int_equal(history_save(path, 0, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 0);
    assert_int_equal(metrics_open(path, &metrics, &error), 0);
    assert_int_equal(history_take(folder, &manifest, metrics, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 3);
    metrics_close(metrics);
    assert_int_equal(history_save(path, 3, "/nowhere", &manifest, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere"));
    assert_int_equal(manifest.file_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_up_to_the_step_travel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_history_is_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
