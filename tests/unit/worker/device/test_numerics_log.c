#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "worker/device/numerics_log.h"

static const char *description;
static char heard[512];

static void describe(struct kernel_device *device, char *ret_text, size_t size)
{
    (void)device;
    snprintf(ret_text, size, "%s", description);
}

static void hear(enum log_level level, const char *message, const struct log_field *fields,
                 size_t field_count, void *context)
{
    (void)level, (void)fields, (void)field_count, (void)context;
    size_t used = strlen(heard);
    snprintf(heard + used, sizeof(heard) - used, "%s|", message);
}

static const char *said(struct numerics_log *numerics, const char *now)
{
    const struct kernel kernel = {.describe = describe};

    description = now;
    heard[0] = '\0';
    numerics_log_write(numerics, &kernel, NULL);
    return heard;
}

/* The log has each line once, also after other lines; a part of a line is another line. */
static void test_each_line_once(void **state)
{
    (void)state;
    struct numerics_log numerics = {0};

    log_set_sink(hear, NULL);
    assert_string_equal(said(&numerics, "a GPU\n8x8: plain\n"),
                        "computes with: a GPU|computes with: 8x8: plain|");
    assert_string_equal(said(&numerics, "a GPU\n8x8: plain\n"), "");
    assert_string_equal(said(&numerics, "a GPU\n8x8\nnew\n8x8: plain"),
                        "computes with: 8x8|computes with: new|");
    assert_string_equal(said(&numerics, ""), "");
    numerics_log_done(&numerics);
    log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_line_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
