/* A metrics file for tests, in a folder of its own, and lines for it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "worker/metrics/metrics.h"

static char folder[64], path[96];
static bool appending_fails;

/* Replace the C library's open(): on demand a file cannot be opened for appending. */
int open(const char *__file, int __oflag, ...)
{
    mode_t mode = 0;

    if (__oflag & O_CREAT) {
        va_list arguments;
        va_start(arguments, __oflag);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    if (appending_fails && (__oflag & O_APPEND)) {
        errno = ENFILE;
        return -1;
    }
    return openat(AT_FDCWD, __file, __oflag, mode);
}

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-metrics-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static inline int begin_without_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static inline struct metrics *open_metrics(void)
{
    struct metrics *metrics = NULL;
    struct error error = {0};

    if (metrics_open(path, &metrics, &error))
        fail_msg("%s", error.text);
    return metrics;
}

static inline struct metrics_line line_of(uint64_t step)
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

static inline void append(struct metrics *metrics, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        struct metrics_line line = line_of(step);
        struct error error = {0};
        if (metrics_append(metrics, &line, &error))
            fail_msg("%s", error.text);
    }
}

static inline void read_text(struct bytes *ret_text)
{
    struct error error = {0};
    if (file_read(path, 1 << 24, ret_text, &error))
        fail_msg("%s", error.text);
}

/* Check that the file holds exactly these steps, once each, in order. */
static inline void check_steps(uint64_t first, uint64_t last)
{
    struct bytes text = {0};
    uint64_t step = first;

    read_text(&text);
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
