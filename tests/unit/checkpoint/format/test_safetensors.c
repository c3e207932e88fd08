/*
 * The container both ways: every written layout parses back, and every foreign layout is refused.
 */
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

#include "checkpoint/format/safetensors.h"
#include "lib/checkpoint/sample.h"

static void set_entry(struct safetensors_entry *entry, const char *name,
                      enum safetensors_dtype dtype, unsigned rank, size_t first, size_t second)
{
    *entry = (struct safetensors_entry){.dtype = dtype, .rank = rank, .shape = {first, second}};
    snprintf(entry->name, sizeof(entry->name), "%s", name);
}

static void test_layout_orders_aligns_and_parses_back(void **state)
{
    (void)state;
    struct safetensors_index index = {.entries = calloc(5, sizeof(struct safetensors_entry)),
                                      .count = 5};
    set_entry(&index.entries[0], "odd", SAFETENSORS_U8, 1, 3, 0);
    set_entry(&index.entries[1], "bias", SAFETENSORS_F32, 1, 5, 0);
    set_entry(&index.entries[2], "wide", SAFETENSORS_I64, 1, 7, 0);
    set_entry(&index.entries[3], "block", SAFETENSORS_F32, 2, 32, 32);
    set_entry(&index.entries[4], "half", SAFETENSORS_BF16, 1, 9, 0);
    for (size_t i = 0; i < 5; i++)
        index.entries[i].user = i;
    struct bytes header = {0};
    assert_int_equal(safetensors_layout(&index, &header), 0);
    assert_int_equal(header.size_bytes % SAFETENSORS_ALIGN, 0);
    assert_int_equal(index.header_bytes, header.size_bytes);
    assert_int_equal(index.file_bytes, header.size_bytes + 4096 + 56 + 20 + 18 + 3);
    static const size_t order[] = {3, 2, 1, 4, 0};
    uint64_t offset = index.header_bytes;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(index.entries[i].user, order[i]);
        assert_int_equal(index.entries[i].offset, offset);
        assert_int_equal(offset % safetensors_dtype_bytes(index.entries[i].dtype), 0);
        offset += index.entries[i].size_bytes;
    }
    assert_non_null(memmem(header.data, header.size_bytes, "\"format\":\"pt\"", 13));

    struct safetensors_index parsed;
    struct error error = {0};
    assert_int_equal(
        safetensors_parse(header.data, header.size_bytes, index.file_bytes, &parsed, &error), 0);
    assert_int_equal(parsed.count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(parsed.entries[i].name, index.entries[i].name);
        assert_int_equal(parsed.entries[i].dtype, index.entries[i].dtype);
        assert_int_equal(parsed.entries[i].rank, index.entries[i].rank);
        assert_int_equal(parsed.entries[i].offset, index.entries[i].offset);
        assert_int_equal(parsed.entries[i].size_bytes, index.entries[i].size_bytes);
        assert_memory_equal(parsed.entries[i].shape, index.entries[i].shape, sizeof(size_t) * 2);
    }
    safetensors_index_done(&parsed);
    safetensors_index_done(&index);
    bytes_done(&header);
}

static void test_layout_refuses_bad_entries(void **state)
{
    (void)state;
    static const char *const names[] = {"", "__metadata__", "with space", "\xc3\xa4", "twice"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct safetensors_index index = {.entries = calloc(2, sizeof(struct safetensors_entry)),
                                          .count = 2};
        struct bytes header = {0};
        set_entry(&index.entries[0], "twice", SAFETENSORS_F32, 1, 1, 0);
        set_entry(&index.entries[1], names[i], SAFETENSORS_F32, 1, 1, 0);
        assert_int_equal(safetensors_layout(&index, &header), -EINVAL);
        safetensors_index_done(&index);
    }
    struct safetensors_index index = {.entries = calloc(1, sizeof(struct safetensors_entry)),
                                      .count = 1};
    struct bytes header = {0};
    set_entry(&index.entries[0], "huge", SAFETENSORS_F32, 2, SIZE_MAX / 2, 3);
    assert_int_equal(safetensors_layout(&index, &header), -EINVAL);
    set_entry(&index.entries[0], "long", SAFETENSORS_F32, 1, SIZE_MAX / 8, 0);
    assert_int_equal(safetensors_layout(&index, &header), -EINVAL);
    index.entries[0].rank = SAFETENSORS_RANK_MAX + 1;
    assert_int_equal(safetensors_layout(&index, &header), -EINVAL);
    safetensors_index_done(&index);
}

static int parse_text(const char *json, uint64_t data_bytes, struct error *error)
{
    uint8_t data[2048];
    size_t length = strlen(json);
    struct safetensors_index index;
    bytes_put_u64(data, length);
    memcpy(data + 8, json, length);
    int status = safetensors_parse(data, 8 + length, 8 + length + data_bytes, &index, error);
    if (status == 0)
        safetensors_index_done(&index);
    return status;
}

/* The same layout as a file whose data are a hole. */
static int open_text(const char *path, const char *json, uint64_t data_bytes, struct error *error)
{
    uint8_t length[8];
    struct safetensors_index index;
    bytes_put_u64(length, strlen(json));
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(length, 1, sizeof(length), file), sizeof(length));
    fputs(json, file);
    fclose(file);
    assert_int_equal(truncate(path, (off_t)(8 + strlen(json) + data_bytes)), 0);
    int status = safetensors_open(path, &index, error);
    if (status == 0)
        safetensors_index_done(&index);
    return status;
}

#define ENTRY(shape, from, to)                                                                     \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void test_the_file_and_the_cause_are_named(void **state)
{
    char folder[64], path[128];
    (void)state;
    sample_folder(folder);
    snprintf(path, sizeof(path), "%s/x.safetensors", folder);
    static const struct {
        const char *json, *cause;
        uint64_t data_bytes;
    } cases[] = {
        {"{\"a\":" ENTRY("[2]", "0", "8") ",\"b\":" ENTRY("[2]", "4", "12") "}", "overlaps", 12},
        {"{\"a\":" ENTRY("[2]", "0", "8") ",\"b\":" ENTRY("[2]", "12", "20") "}", "hole", 20},
        {"{\"a\":" ENTRY("[2]", "0", "8") "}", "4 bytes follow", 12},
        {"{\"a\":" ENTRY("[2]", "0", "8") "}", "outside", 4},
        {"{\"a\":" ENTRY("[3]", "0", "8") "}", "shape needs 12", 8},
        {"{\"a\":" ENTRY("[2]", "8", "0") "}", "outside", 8},
        {"{\"a\":" ENTRY("[-1]", "0", "8") "}", "not a count", 8},
        {"{\"a\":" ENTRY("[2.0]", "0", "8") "}", "not a count", 8},
        {"{\"a\":" ENTRY("[4294967296,4294967296,4294967296]", "0", "8") "}", "overflows", 8},
        {"{\"a\":" ENTRY("[9223372036854775807,2]", "0", "8") "}", "overflows", 8},
        {"{\"a\":" ENTRY("[1,1,1,1,1,1,1,1,2]", "0", "8") "}", "at most 8", 8},
        {"{\"a\":" ENTRY("[2]", "0", "8") ",\"a\":" ENTRY("[2]", "8", "16") "}", "duplicate", 16},
        {"{\"\":" ENTRY("[2]", "0", "8") "}", "name", 8},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", "F99", 8},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "no dtype", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", "shape is not", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "not a pair", 8},
        {"{\"a\":7}", "no dtype", 8},
        {"{\"__metadata__\":7}", "__metadata__", 0},
        {"{\"__metadata__\":{\"format\":7}}", "not a string", 0},
        {"[1]", "not an object", 0},
        {"{\"a\"", "safetensors header", 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        assert_int_equal(parse_text(cases[i].json, cases[i].data_bytes, &error), -EBADMSG);
        assert_int_equal(error.code, -EBADMSG);
        if (!strstr(error.text, cases[i].cause))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].json, error.text, cases[i].cause);
        assert_int_equal(open_text(path, cases[i].json, cases[i].data_bytes, &error), -EBADMSG);
        if (!strstr(error.text, cases[i].cause) || !strstr(error.text, path))
            fail_msg("%s: \"%s\" does not say \"%s\" and the file", cases[i].json, error.text,
                     cases[i].cause);
    }
    sample_remove(folder);
}

static void test_parse_takes_what_others_write(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(parse_text("{}", 0, &error), 0);
    assert_int_equal(
        parse_text("{\"b\":" ENTRY("[2]", "8", "16") ",\"a\":" ENTRY("[2]", "0", "8") "}   ", 16,
                   &error),
        0);
    assert_int_equal(parse_text("{\"e\":" ENTRY("[0]", "8", "8") ",\"a\":" ENTRY(
                                    "[2]", "0", "8") ",\"s\":" ENTRY("[]", "8", "12") "}",
                                12, &error),
                     0);
}

static void test_parse_bounds_the_header(void **state)
{
    (void)state;
    uint8_t data[64] = {0};
    struct safetensors_index index;
    struct error error = {0};
    bytes_put_u64(data, (uint64_t)SAFETENSORS_HEADER_MAX + 1);
    assert_int_equal(safetensors_parse(data, 64, UINT64_MAX, &index, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "100000001 bytes"));
    bytes_put_u64(data, UINT64_MAX);
    assert_int_equal(safetensors_parse(data, 64, UINT64_MAX, &index, &error), -EBADMSG);
    bytes_put_u64(data, 57);
    assert_int_equal(safetensors_parse(data, 64, 64, &index, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "truncated"));
    bytes_put_u64(data, 60);
    assert_int_equal(safetensors_parse(data, 64, 100, &index, &error), -EBADMSG);
    assert_int_equal(safetensors_parse(data, 7, 7, &index, &error), -EBADMSG);
    bytes_put_u64(data, 0);
    assert_int_equal(safetensors_parse(data, 64, 64, &index, &error), -EBADMSG);
}

static void test_open_names_the_file(void **state)
{
    (void)state;
    char folder[64], path[128];
    struct safetensors_index index;
    struct error error = {0};
    sample_folder(folder);
    snprintf(path, sizeof(path), "%s/x.safetensors", folder);
    assert_int_equal(safetensors_open(path, &index, &error), -ENOENT);
    assert_non_null(strstr(error.text, path));
    FILE *file = fopen(path, "w");
    fputs("{\"this\": \"is JSON, not safetensors\"}", file);
    fclose(file);
    assert_int_equal(safetensors_open(path, &index, &error), -EBADMSG);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(safetensors_open(path, &index, &error), -EBADMSG);
    assert_int_equal(safetensors_open(folder, &index, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "not a regular file"));
    sample_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_orders_aligns_and_parses_back),
        cmocka_unit_test(test_layout_refuses_bad_entries),
        cmocka_unit_test(test_the_file_and_the_cause_are_named),
        cmocka_unit_test(test_parse_takes_what_others_write),
        cmocka_unit_test(test_parse_bounds_the_header),
        cmocka_unit_test(test_open_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
