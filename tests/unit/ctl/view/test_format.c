/* Text for people: quantities, tables, and cutting to a terminal's width. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/job/plan_slots.h"
#include "ctl/view/format.h"
#include "ctl/view/terminal.h"
#include "ctl/view/text_table.h"

static char text[FORMAT_UNITS_SIZE];

static void test_counts(void **state)
{
    (void)state;
    assert_string_equal(format_count(950, text), "950");
    assert_string_equal(format_count(999.96, text), "1.0k");
    assert_string_equal(format_count(12345, text), "12.3k");
    assert_string_equal(format_count(4.5e6, text), "4.5M");
    assert_string_equal(format_count(NAN, text), "-");
    assert_string_equal(format_loss(2.34567, text), "2.3457");
    assert_string_equal(format_loss(9999.9999, text), "9999.9999");
    assert_string_equal(format_loss(9999.99999, text), "1.00e+04");
    assert_string_equal(format_loss(-8921266240.0, text), "-8.92e+09");
    assert_string_equal(format_loss(INFINITY, text), "inf");
    assert_string_equal(format_loss(NAN, text), "-");
}

static void test_durations(void **state)
{
    (void)state;
    const struct {
        double seconds;
        const char *words;
    } cases[] = {{0, "0.0 ms"},      {0.0042, "4.2 ms"}, {0.14, "140 ms"}, {0.9996, "1.0 s"},
                 {12.54, "12.5 s"},  {59.99, "1m 00s"},  {245, "4m 05s"},  {10920, "3h 02m"},
                 {183600, "2d 03h"}, {-1, "-"},          {INFINITY, "-"},  {NAN, "-"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_string_equal(format_duration(cases[i].seconds, text), cases[i].words);
}

static void test_units_as_layers(void **state)
{
    (void)state;
    assert_string_equal(format_units(0, 14, 14, text), "embedding, layers 0-5, head");
    assert_string_equal(format_units(0, 5, 14, text), "embedding, layers 0-1");
    assert_string_equal(format_units(0, 1, 14, text), "embedding");
    assert_string_equal(format_units(5, 7, 14, text), "layer 2");
    assert_string_equal(format_units(5, 6, 14, text), "layer 2 attention");
    assert_string_equal(format_units(6, 7, 14, text), "layer 2 mlp");
    assert_string_equal(format_units(4, 8, 14, text), "layers 1 mlp-3 attention");
    assert_string_equal(format_units(11, 14, 14, text), "layer 5, head");
    assert_string_equal(format_units(13, 14, 14, text), "head");
    assert_string_equal(format_units(7, 7, 14, text), "");
}

static void test_a_bar_is_always_as_wide(void **state)
{
    (void)state;
    char bar[FORMAT_BAR_SIZE];
    for (int i = -10; i <= 1010; i++)
        assert_int_equal(terminal_width_of(format_bar(i / 1000.0, bar)), FORMAT_BAR_CELLS);
    assert_int_equal(terminal_width_of(format_bar(NAN, bar)), FORMAT_BAR_CELLS);
    assert_null(strchr(format_bar(1, bar), ' '));
    assert_int_equal(strspn(format_bar(0, bar), " "), FORMAT_BAR_CELLS);
}

static void test_quotes_for_a_shell(void **state)
{
    (void)state;
    char quoted[16];
    assert_true(format_quoted("/tmp/a-b_c.1", quoted, sizeof(quoted)));
    assert_string_equal(quoted, "/tmp/a-b_c.1");
    assert_true(format_quoted("a b", quoted, sizeof(quoted)));
    assert_string_equal(quoted, "'a b'");
    assert_true(format_quoted("it's", quoted, sizeof(quoted)));
    assert_string_equal(quoted, "'it'\\''s'");
    assert_true(format_quoted("", quoted, sizeof(quoted)));
    assert_string_equal(quoted, "''");
    assert_false(format_quoted("$123456789012345", quoted, sizeof(quoted)));
}

static void test_width_and_fit(void **state)
{
    (void)state;
    assert_int_equal(terminal_width_of("abc"), 3);
    assert_int_equal(terminal_width_of("█▌⠑●"), 4);
    assert_int_equal(terminal_width_of("\033[1mab\033[0m"), 2);
    assert_int_equal(terminal_fit("abcdef", 3), 3);
    assert_int_equal(terminal_fit("ab\ncd", 80), 2);
    assert_int_equal(terminal_fit("██x", 2), 6); /* whole characters */
    assert_int_equal(terminal_fit("\033[1mab\033[0mc", 2), 10);
    assert_int_equal(terminal_fit("", 5), 0);
}

static void test_tables_are_aligned(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes out = {0};
    CLEANUP(text_table_done) struct text_table table = {0};
    text_table_init(&table, "NAME|#N|WHY");
    const char *cells[] = {"a", "1", "", "long ●", "1234", "x y"};
    for (size_t i = 0; i < ARRAY_COUNT(cells); i++)
        text_table_cell(&table, "%s", cells[i]);
    assert_int_equal(text_table_append(&table, &out), 0);
    assert_int_equal(bytes_append(&out, "", 1), 0);
    assert_string_equal((char *)out.data, "NAME       N  WHY\n"
                                          "a          1\n"
                                          "long ●  1234  x y\n");
}

static void test_slots_of_a_dry_run(void **state)
{
    (void)state;
    unsigned count;
    uint64_t memory;
    char name[NAME_SIZE];
    assert_int_equal(plan_slots_parse("6", &count, &memory), 0);
    assert_true(count == 6 && memory == 0);
    assert_int_equal(plan_slots_parse("8@80GiB", &count, &memory), 0);
    assert_true(count == 8 && memory == 80ull << 30);
    assert_int_equal(plan_slots_parse("1@1.5K", &count, &memory), 0);
    assert_true(memory == 1536);
    const char *bad[] = {"", "0", "-1", "x", "2@", "2@x", "2@-1G", "2@1GX", "2x", "4097", "2@nan"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(plan_slots_parse(bad[i], &count, &memory), -EINVAL);
    plan_slots_node_name(25, name);
    assert_string_equal(name, "z");
    plan_slots_node_name(26, name);
    assert_string_equal(name, "n26");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_units_as_layers),
        cmocka_unit_test(test_a_bar_is_always_as_wide),
        cmocka_unit_test(test_quotes_for_a_shell),
        cmocka_unit_test(test_width_and_fit),
        cmocka_unit_test(test_tables_are_aligned),
        cmocka_unit_test(test_slots_of_a_dry_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
