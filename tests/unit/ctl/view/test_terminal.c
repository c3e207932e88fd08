/* How lines go into a narrow terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "ctl/view/terminal.h"

static void test_lines_break_at_a_space(void **state)
{
    static const struct {
        const char *text;
        unsigned columns;
        size_t length;
    } cases[] = {
        {"short", 10, 5},
        {"exactly te", 10, 10},
        {"the rest goes below", 10, 8},
        {"the rest\nof it", 10, 8},
        {"nospaceatallhere", 10, 10},
        {"a bcdefghijklmnop", 10, 10}, /* a word alone on its line would be worse */
        {"\033[1mbold\033[0m and more of it", 9, 16},
        {"\xe2\x97\x80 slowest of all", 10, 11},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(terminal_break(cases[i].text, cases[i].columns), cases[i].length);
}

static void test_without_a_terminal_nobody_leaves(void **state)
{
    (void)state;
    terminal_take_keys();
    assert_false(terminal_asked_to_leave());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_break_at_a_space),
        cmocka_unit_test(test_without_a_terminal_nobody_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
