/*
 * Fail the k-th allocation of the metrics, for every k until all succeed: every failure has a
 * message, because an alarm without a message clears the active alarm; the next line is written as
 * if nothing had happened, and no accepted line is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "lib/memory/fault_memory.h"
#include "worker/metrics/metrics.h"

static char path[] = "/tmp/firn-metrics-memory-XXXXXX";
static struct error failure;
static bool appended[4]; /* by step */
static char theirs[1024];

static int check_words(int status)
{
    return status && !failure.text[0] ? -EINVAL : status;
}

static struct metrics_line line_of(uint64_t step)
{
    return (struct metrics_line){
        .job = "demo", .step = step, .loss = 1.0 / (double)step, .grad_norm = 2, .lr = 1e-3};
}

static int append(struct metrics *metrics, uint64_t step)
{
    const struct metrics_line line = line_of(step);

    error_clear(&failure);
    int status = check_words(metrics_append(metrics, &line, &failure));
    appended[step] = !status;
    return status;
}

/* Append two own lines, and adopt a third line of another node. */
static int run(void)
{
    struct metrics *metrics;

    memset(appended, 0, sizeof(appended));
    error_clear(&failure);
    if (truncate(path, 0))
        return -errno;
    int status = check_words(metrics_open(path, &metrics, &failure));
    if (status)
        return status;
    int first = append(metrics, 1), second = append(metrics, 2);
    error_clear(&failure);
    status = check_words(metrics_adopt(metrics, theirs, strlen(theirs), &failure));
    appended[3] = !status;
    metrics_close(metrics);
    return status ? status : first ? first : second;
}

static bool has_step(const char *text, uint64_t step)
{
    char key[32];

    snprintf(key, sizeof(key), "\"step\":%u,", (unsigned)step);
    return strstr(text, key);
}

/* Check that every accepted line is in the file and can be read. */
static void check(int result)
{
    struct bytes text = {0};
    struct metrics *metrics;
    struct error error = {0};

    (void)result;
    assert_int_equal(file_read(path, 1 << 20, &text, &error), 0);
    for (uint64_t step = 1; step <= 3; step++)
        assert_true(!appended[step] || has_step((const char *)text.data, step));
    assert_int_equal(metrics_open(path, &metrics, &error), 0);
    size_t size_bytes = text.size_bytes;
    metrics_close(metrics);
    bytes_done(&text);
    assert_int_equal(file_read(path, 1 << 20, &text, &error), 0);
    assert_int_equal(text.size_bytes, size_bytes); /* nothing was truncated */
    bytes_done(&text);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    fault_memory_each(&failure, run, check);
}

static int make_file(void **state)
{
    struct metrics *metrics;
    struct bytes text = {0};
    int descriptor = mkstemp(path);

    (void)state;
    if (descriptor < 0 || close(descriptor) || metrics_open(path, &metrics, &failure) ||
        append(metrics, 3))
        return -1;
    metrics_close(metrics);
    if (file_read(path, sizeof(theirs) - 1, &text, &failure))
        return -1;
    memcpy(theirs, text.data, text.size_bytes);
    bytes_done(&text);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
