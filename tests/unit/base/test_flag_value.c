/* A flag whose value was forgotten does not take the next flag for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <getopt.h>

#include "base/flag_value.h"

/* Parse the words after the program's name with getopt_long(), and return whether a value is
 * missing.
 */
static bool forgotten(char *first, char *second)
{
    static const struct option flags[] = {{"dir", required_argument, NULL, 'd'}, {0}};
    char *words[] = {(char[]){"program"}, first, second, NULL};

    optind = 1;
    assert_int_equal(getopt_long(second ? 3 : 2, words, ":", flags, NULL), 'd');
    return flag_value_forgotten(words);
}

static void test_next_flag_is_no_value(void **state)
{
    (void)state;
    assert_true(forgotten((char[]){"--dir"}, (char[]){"--name"}));
    assert_true(forgotten((char[]){"--dir"}, (char[]){"--"}));
    assert_false(forgotten((char[]){"--dir"}, (char[]){"-"})); /* often: standard input */
    assert_false(forgotten((char[]){"--dir"}, (char[]){"-1"}));
    assert_false(forgotten((char[]){"--dir"}, (char[]){""}));
    assert_false(forgotten((char[]){"--dir=--name"}, NULL)); /* said in one word, it is meant */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_flag_is_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
