/*
 * Tests that the table in docs/job.md is the schema's. With FIRN_UPDATE_DOCS=1 this program writes
 * the table there instead of comparing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "elastic/job/job_schema.h"

#define DOC_SIZE_MAX (1u << 20)

static const char begin[] = "<!-- table: begin";
static const char end[] = "<!-- table: end -->\n";

static void update(const char *path, const char *doc, const char *table, const char *tail,
                   const char *markdown)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    assert_int_equal(
        bytes_append_format(&text, "%.*s%s%s", (int)(table - doc), doc, markdown, tail), 0);
    assert_int_equal(file_replace(path, text.data, text.size_bytes, 0644, NULL), 0);
}

static void test_table_is_the_schema(void **state)
{
    (void)state;
    static const char path[] = FIRN_SOURCE "/docs/job.md";
    CLEANUP(bytes_done) struct bytes text = {0};
    struct error error = {0};
    assert_int_equal(file_read(path, DOC_SIZE_MAX, &text, &error), 0);
    const char *doc = (const char *)text.data;
    const char *marker = strstr(doc, begin);
    assert_non_null(marker);
    const char *table = strchr(marker, '\n') + 1;
    const char *tail = strstr(table, end);
    assert_non_null(tail);
    AUTO_FREE char *markdown = job_spec_schema_markdown();
    assert_non_null(markdown);
    if (getenv("FIRN_UPDATE_DOCS")) {
        update(path, doc, table, tail, markdown);
        return;
    }
    if ((size_t)(tail - table) != strlen(markdown) ||
        memcmp(table, markdown, strlen(markdown)) != 0)
        fail_msg("docs/job.md's table is not the schema's; run this test with FIRN_UPDATE_DOCS=1");
}

static void test_every_key_has_a_row_with_meaning(void **state)
{
    (void)state;
    AUTO_FREE char *markdown = job_spec_schema_markdown();
    for (unsigned i = 0; i < job_schema_count; i++) {
        char row[256];
        snprintf(row, sizeof(row), "| `%s` | ", job_schema[i].path);
        assert_non_null(strstr(markdown, row));
        assert_true(job_schema[i].meaning[0] != '\0');
        assert_null(strchr(job_schema[i].meaning, '|'));
        assert_true(schema_find(job_schema[i].path) == &job_schema[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_the_schema),
        cmocka_unit_test(test_every_key_has_a_row_with_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
