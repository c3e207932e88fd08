/* Tests of the edit distance against distances computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "elastic/job/edit_distance.h"

static void test_known_distances(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {
        {"", "", 0},           {"", "abc", 3},         {"steps", "steps", 0},
        {"stpes", "steps", 1}, {"step", "steps", 1},   {"kitten", "sitting", 3},
        {"ca", "abc", 3},      {"lanes", "planes", 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void test_long_words_are_far_apart(void **state)
{
    (void)state;
    char longest[EDIT_DISTANCE_WORD_MAX + 1] = {0}, longer[EDIT_DISTANCE_WORD_MAX + 2] = {0};
    memset(longest, 'a', EDIT_DISTANCE_WORD_MAX);
    memset(longer, 'a', EDIT_DISTANCE_WORD_MAX + 1);
    assert_int_equal(edit_distance(longest, longest), 0);
    assert_int_equal(edit_distance(longest, longer), EDIT_DISTANCE_WORD_MAX);
    assert_false(edit_distance_is_close(longer, longest));
}

static void test_close(void **state)
{
    (void)state;
    assert_true(edit_distance_is_close("layer", "layers"));
    assert_true(edit_distance_is_close("optimiser", "optimizer"));
    assert_true(edit_distance_is_close("lrr", "lr"));
    assert_false(edit_distance_is_close("quokka", "freeze"));
    assert_false(edit_distance_is_close("ab", "cd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_distances),
        cmocka_unit_test(test_long_words_are_far_apart),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
