/* The failure messages of the other tests here. */
#include "parity/oracle/differences.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define WIDTH 284
#define ROWS  5
#define TAIL  14

static void expect_says(const struct differences *d, const char *what)
{
    char text[768];

    differences_text(d, "to be right", text, sizeof(text));
    if (!strstr(text, what))
        fail_msg("'%s' is not in:\n%s", what, text);
}

/* A kernel that forgets the tail of each row. */
static void test_the_tail_of_rows(void **state)
{
    (void)state;
    struct differences d = {.name = "output", .count = (size_t)ROWS * WIDTH};

    for (size_t i = 0; i < d.count; i++)
        differences_add(&d, i, 0.0, 1.0, i % WIDTH >= WIDTH - TAIL ? 1.0 + (double)i : 0.0);
    expect_says(&d, "output: 70 wrong of 1420 looked at");
    expect_says(&d, "first 270: is 0, not 1");
    expect_says(&d, "worst 1419: ");
    expect_says(&d, "last 1419");
    expect_says(&d, "5 stretches, the first of 14, the second begins 284 further");
}

static void test_all_from_a_place_on(void **state)
{
    (void)state;
    struct differences d = {.name = "output", .count = 100};

    for (size_t i = 0; i < d.count; i++)
        differences_add(&d, i, i < 32 ? 1.0 : (double)NAN, 1.0, i < 32 ? 0.0 : (double)INFINITY);
    expect_says(&d, "68 of them NaN");
    expect_says(&d, "one stretch of 68");
}

static void test_everything(void **state)
{
    (void)state;
    struct differences d = {.name = "output", .count = 100};

    for (size_t i = 0; i < d.count; i += 7)
        differences_add(&d, i, 2.0, 1.0, 1.0);
    expect_says(&d, "15 wrong of 15 looked at (100 elements)");
    expect_says(&d, "all that was looked at");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tail_of_rows),
        cmocka_unit_test(test_all_from_a_place_on),
        cmocka_unit_test(test_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
