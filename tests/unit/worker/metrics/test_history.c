/* Tests of the metrics that travel with a checkpoint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "worker/metrics/history.h"

static char folder[64], path[96];
static struct history_source source;

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-history-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/run.jsonl", folder);
    source = (struct history_source){.metrics_path = path, .before = folder};
    return 0;
}

static int remove_entry(const char *name, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(name);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
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

/* Continue the same file, up to @steps. */
static void write_more(const char *where, uint64_t steps)
{
    struct metrics *metrics;
    struct error error = {0};

    assert_int_equal(metrics_open(where, &metrics, &error), 0);
    for (uint64_t step = metrics_last_step(metrics) + 1; step <= steps; step++) {
        struct metrics_line line = {.job = "j", .step = step, .loss = 1.0 / (double)step};
        assert_int_equal(metrics_append(metrics, &line, &error), 0);
    }
    metrics_close(metrics);
}

static void expect_equal(const char *one, const char *other)
{
    struct bytes a = {0}, b = {0};
    struct error error = {0};

    assert_int_equal(file_read(one, 1 << 24, &a, &error), 0);
    assert_int_equal(file_read(other, 1 << 24, &b, &error), 0);
    assert_int_equal(a.size_bytes, b.size_bytes);
    assert_memory_equal(a.data, b.data, a.size_bytes);
    bytes_done(&a);
    bytes_done(&b);
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
    fputs("{\"job\":\"j\",\"step\":1", file); /* the writer is in the middle of a line */
    fclose(file);
    assert_int_equal(history_save(&source, 6, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 1);
    assert_string_equal(manifest.files[0].name, "metrics-0000000006.jsonl");
    snprintf(kept, sizeof(kept), "%s/metrics-0000000006.jsonl", folder);
    assert_int_equal(file_read(kept, 1 << 20, &text, &error), 0);
    assert_int_equal(manifest.files[0].size_bytes, text.size_bytes);
    assert_int_equal(manifest.files[0].chunk_crcs[0], hash_crc32c(0, text.data, text.size_bytes));

    /* One node has no metrics, and another node has some of them. */
    snprintf(other, sizeof(other), "%s/other.jsonl", folder);
    for (unsigned seen = 0; seen < 10; seen += 4) {
        unlink(other);
        write_steps(other, seen);
        assert_int_equal(metrics_open(other, &metrics, &error), 0);
        assert_int_equal(history_take(folder, &manifest, metrics, &error), 0);
        assert_int_equal(metrics_last_step(metrics), seen > 6 ? seen : 6);
        metrics_close(metrics);
    }

    /* A flipped bit anywhere: none of the lines is taken. */
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

/* Zeros are where the oldest line of the newest 64 MiB should begin: those behind it are saved. */
static void test_damage_hides_no_newer_line(void **state)
{
    struct manifest manifest = {0};
    struct bytes lines = {0}, saved = {0};
    struct error error = {0};
    char kept[256];
    (void)state;
    write_steps(path, 9);
    assert_int_equal(file_read(path, 1 << 20, &lines, &error), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)HISTORY_BYTES_MAX + 12345), 0);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fprintf(file, "\n%s", (const char *)lines.data);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(history_save(&source, 9, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 1);
    snprintf(kept, sizeof(kept), "%s/%s", folder, manifest.files[0].name);
    assert_int_equal(file_read(kept, 1 << 20, &saved, &error), 0);
    assert_int_equal(saved.size_bytes, lines.size_bytes);
    assert_memory_equal(saved.data, lines.data, lines.size_bytes);
    bytes_done(&lines);
    bytes_done(&saved);
    manifest_done(&manifest);
}

static void test_no_history_is_none(void **state)
{
    struct manifest manifest = {0};
    struct metrics *metrics;
    struct error error = {0};
    (void)state;
    assert_int_equal(history_save(&source, 6, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 0);
    write_steps(path, 3);
    assert_int_equal(history_save(&source, 0, folder, &manifest, &error), 0);
    assert_int_equal(manifest.file_count, 0);
    assert_int_equal(metrics_open(path, &metrics, &error), 0);
    assert_int_equal(history_take(folder, &manifest, metrics, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 3);
    metrics_close(metrics);
    assert_int_equal(history_save(&source, 3, "/nowhere", &manifest, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere"));
    assert_int_equal(manifest.file_count, 0);
}

/* Save checkpoint @number of a long run; each checkpoint has 100 more steps. */
static void save_next(unsigned number, struct manifest *before, char before_path[96],
                      uint64_t *written_bytes)
{
    struct manifest manifest = {0};
    struct error error = {0};
    struct stat status;
    char part[96], file[256];

    write_more(path, 100 * number);
    snprintf(part, sizeof(part), "%.60s/%u", folder, number);
    assert_int_equal(mkdir(part, 0755), 0);
    source.before = before_path;
    source.manifest = before->file_count ? before : NULL;
    if (history_save(&source, 100 * (uint64_t)number, part, &manifest, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < manifest.file_count; i++) {
        snprintf(file, sizeof(file), "%s/%s", part, manifest.files[i].name);
        assert_int_equal(stat(file, &status), 0);
        assert_int_equal((uint64_t)status.st_size, manifest.files[i].size_bytes);
        *written_bytes += status.st_nlink == 1 ? (uint64_t)status.st_size : 0;
    }
    manifest_done(before);
    *before = manifest;
    strcpy(before_path, part);
}

static void test_a_long_run_writes_what_is_new(void **state)
{
    struct manifest before = {0};
    struct metrics *metrics;
    struct error error = {0};
    char before_path[96] = "", other[128];
    uint64_t written_bytes = 0, most = 0;
    struct stat whole;

    (void)state;
    for (unsigned number = 1; number <= 40; number++) {
        save_next(number, &before, before_path, &written_bytes);
        most = MAX(most, (uint64_t)before.file_count);
    }
    assert_int_equal(stat(path, &whole), 0);
    assert_true(most <= 8);
    assert_true(written_bytes < 5 * (uint64_t)whole.st_size); /* the whole file: 20 times */
    snprintf(other, sizeof(other), "%s/other.jsonl", folder);
    assert_int_equal(metrics_open(other, &metrics, &error), 0);
    if (history_take(before_path, &before, metrics, &error))
        fail_msg("%s", error.text);
    metrics_close(metrics);
    expect_equal(path, other);

    /* A corrupt segment goes into no other checkpoint: the node's own lines replace it. */
    char rotten[256];
    snprintf(rotten, sizeof(rotten), "%s/%s", before_path, before.files[0].name);
    assert_int_equal(file_replace(rotten, "x", 1, 0644, &error), 0);
    save_next(41, &before, before_path, &written_bytes);
    assert_int_equal(before.file_count, 1);
    manifest_done(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_up_to_the_step_travel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_hides_no_newer_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_history_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_long_run_writes_what_is_new, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
