/* Tests of events: one JSON line each, with any text; a disk failure stops no caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "daemon/core/events.h"

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-events-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/events.jsonl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static json_t *read_line(const struct bytes *text, unsigned index)
{
    const char *at = (const char *)text->data;
    json_t *tree;

    for (; index > 0; index--)
        at = strchr(at, '\n') + 1;
    assert_int_equal(
        json_parse(at, (size_t)(strchr(at, '\n') - at), "events", &tree, &(struct error){0}), 0);
    return tree;
}

static const char *text_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    assert_non_null(text);
    return text;
}

static void test_lines(void **state)
{
    const struct event_facts pause = {
        .job = "demo", .node = "a", .generation = 3, .step = 120, .pause_seconds = 0.14};
    const struct event_facts plain = {.job = "demo", .node = "b", .pause_seconds = -1};
    struct bytes text = {0};
    struct error error = {0};

    (void)state;
    events_append(folder, &pause, "training", "3 stages -> 2");
    events_append(folder, &plain, "worker", "\"quoted\"\nand on a second line\t\x01");
    assert_int_equal(file_read(path, 1 << 16, &text, &error), 0);

    AUTO_JSON json_t *first = read_line(&text, 0);
    assert_string_equal(text_of(first, "job"), "demo");
    assert_string_equal(text_of(first, "node"), "a");
    assert_string_equal(text_of(first, "kind"), "training");
    assert_string_equal(text_of(first, "text"), "3 stages -> 2");
    assert_int_equal(json_integer_value(json_object_get(first, "generation")), 3);
    assert_int_equal(json_integer_value(json_object_get(first, "step")), 120);
    assert_true(json_real_value(json_object_get(first, "pause_ms")) > 139.9);
    assert_true(json_integer_value(json_object_get(first, "unix_ns")) > 0);

    AUTO_JSON json_t *second = read_line(&text, 1);
    assert_string_equal(text_of(second, "text"), "\"quoted\"\nand on a second line\t\x01");
    assert_null(json_object_get(second, "pause_ms"));
    unsigned lines = 0;
    for (size_t i = 0; i < text.size_bytes; i++)
        lines += text.data[i] == '\n';
    assert_int_equal(lines, 2);
    bytes_done(&text);
}

/* Bytes that are not UTF-8 become question marks: the event is written all the same. */
static void test_file_is_bounded(void **state)
{
    const struct event_facts facts = {.job = "demo", .node = "a", .pause_seconds = -1};
    char older[112];
    struct stat found;
    struct bytes text = {0};

    (void)state;
    snprintf(older, sizeof(older), "%s.1", path);
    unlink(path);
    events_append(folder, &facts, "plan", "the first");
    assert_int_equal(truncate(path, ((off_t)64 << 20) - 1), 0); /* a hole instead of years */
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_int_equal(fputs("\n", file), 1);
    assert_int_equal(fclose(file), 0);
    events_append(folder, &facts, "plan", "the last");
    events_append(folder, &facts, "plan", "the next");
    assert_int_equal(file_read(path, 1 << 20, &text, &(struct error){0}), 0);
    AUTO_JSON json_t *last = read_line(&text, 0);
    AUTO_JSON json_t *next = read_line(&text, 1);
    assert_string_equal(text_of(last, "text"), "the last");
    assert_string_equal(text_of(next, "text"), "the next");
    bytes_done(&text);
    assert_int_equal(stat(older, &found), 0);
    assert_true(found.st_size > (off_t)64 << 20);
    unlink(older);
}

static void test_words_that_are_no_text(void **state)
{
    const struct event_facts facts = {.job = "demo", .node = "a", .pause_seconds = -1};
    struct bytes text = {0};
    struct error error = {0};

    (void)state;
    unlink(path);
    events_append(folder, &facts, "worker", "cut off: \xc3");
    assert_int_equal(file_read(path, 1 << 16, &text, &error), 0);
    AUTO_JSON json_t *line = read_line(&text, 0);
    assert_string_equal(text_of(line, "text"), "cut off: ?");
    bytes_done(&text);
}

static void test_no_folder(void **state)
{
    const struct event_facts facts = {.job = "demo", .node = "a", .pause_seconds = -1};

    (void)state;
    events_append("/nowhere/at/all", &facts, "worker", "gone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_file_is_bounded),
        cmocka_unit_test(test_words_that_are_no_text),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
