/* Names: the rule at its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/name.h"

static void test_good_names_pass(void **state)
{
    (void)state;
    const char *names[] = {"a", "0", "gpt2-124m", "node_1.rack-2", "a--", "9._-"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(name_valid(names[i]));
}

static void test_bad_names_do_not(void **state)
{
    (void)state;
    const char *names[] = {"",    ".",   "..",  "-a",  "_a",    "A",        "aB",
                           "a/b", "a b", "a\n", "a:b", "a\x80", "\xc3\xa4", "a%"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(name_valid(names[i]));
}

static void test_the_longest_name_has_63_bytes(void **state)
{
    (void)state;
    char name[NAME_SIZE + 1];
    memset(name, 'a', sizeof(name));
    name[NAME_SIZE] = '\0';
    assert_false(name_valid(name));
    name[NAME_SIZE - 1] = '\0';
    assert_true(name_valid(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_names_pass),
        cmocka_unit_test(test_bad_names_do_not),
        cmocka_unit_test(test_the_longest_name_has_63_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
