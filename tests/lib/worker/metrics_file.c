#include "lib/worker/metrics_file.h"

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

#include "base/bits.h"
#include "base/json.h"

char metrics_file_folder[64], metrics_file_path[96];
bool metrics_file_fails;

/* Replace the C library's open(): on demand, opening a file for appending fails. */
int open(const char *__file, int __oflag, ...)
{
    mode_t mode = 0;

    if (__oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, __oflag);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (metrics_file_fails && (__oflag & O_APPEND)) {
        errno = ENFILE;
        return -1;
    }
    return openat(AT_FDCWD, __file, __oflag, mode);
}

int metrics_file_make_folder(void **state)
{
    (void)state;
    snprintf(metrics_file_folder, sizeof(metrics_file_folder), "/tmp/firn-metrics-XXXXXX");
    if (!mkdtemp(metrics_file_folder))
        return -1;
    snprintf(metrics_file_path, sizeof(metrics_file_path), "%s/metrics.jsonl", metrics_file_folder);
    return 0;
}

int metrics_file_remove_folder(void **state)
{
    (void)state;
    unlink(metrics_file_path);
    return rmdir(metrics_file_folder);
}

int metrics_file_begin(void **state)
{
    (void)state;
    unlink(metrics_file_path);
    return 0;
}

struct metrics *metrics_file_open(void)
{
    struct metrics *metrics = NULL;
    struct error error = {0};

    if (metrics_open(metrics_file_path, &metrics, &error))
        fail_msg("%s", error.text);
    return metrics;
}

struct metrics_line metrics_file_line(uint64_t step)
{
    return (struct metrics_line){
        .job = "demo",
        .step = step,
        .loss = 5.5 - (double)step / 7,
        .grad_norm = 1.0 / (double)step,
        .lr = 1e-3,
        .frozen_layers = step > 10,
        .generation = 3,
        .stages = 2,
        .replicas = 3,
        .workers = 6,
        .tokens = step * 1536,
        .step_ms = 12.5,
        .unix_ns = 1700000000000000000 + step,
    };
}

void metrics_file_append(struct metrics *metrics, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        struct metrics_line line = metrics_file_line(step);
        struct error error = {0};
        if (metrics_append(metrics, &line, &error))
            fail_msg("%s", error.text);
    }
}

void metrics_file_read(struct bytes *ret_text)
{
    struct error error = {0};
    if (file_read(metrics_file_path, 1 << 24, ret_text, &error))
        fail_msg("%s", error.text);
}

void metrics_file_check_steps(uint64_t first, uint64_t last)
{
    struct bytes text = {0};
    uint64_t step = first;

    metrics_file_read(&text);
    for (const char *at = (const char *)text.data; at && *at; step++) {
        const char *end = strchr(at, '\n');
        struct error error = {0};
        json_t *tree;
        assert_non_null(end);
        assert_int_equal(json_parse(at, (size_t)(end - at), "line", &tree, &error), 0);
        assert_int_equal(json_integer_value(json_object_get(tree, "step")), step);
        json_decref(tree);
        at = end + 1;
    }
    assert_int_equal(step, last + 1);
    bytes_done(&text);
}

/* ---- a full disk ---- */

static void allow_bytes(rlim_t size)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void metrics_file_fill_disk(unsigned spare_bytes)
{
    struct stat now;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(stat(metrics_file_path, &now), 0);
    allow_bytes((rlim_t)now.st_size + spare_bytes);
}

void metrics_file_empty_disk(void)
{
    allow_bytes(RLIM_INFINITY);
}

void metrics_file_refuse(struct metrics *metrics, uint64_t step)
{
    struct metrics_line line = metrics_file_line(step);
    struct error error = {0};

    assert_true(metrics_append(metrics, &line, &error) < 0);
    assert_non_null(strstr(error.text, "kept and tried again"));
}
