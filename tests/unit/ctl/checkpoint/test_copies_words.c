/* The messages about damaged or absent copies are right in singular and plural. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "ctl/checkpoint/copies_words.h"

static void test_words_fit_the_number(void **state)
{
    static const struct {
        struct copies_check check;
        int status;
        const char *text;
    } cases[] = {
        {{.fewest = 2}, 0, ""},
        {{.bad = 1, .fewest = 1},
         -EBADMSG,
         "1 copy of a file is damaged; every file has a good one left"},
        {{.bad = 2, .lost = 1},
         -EBADMSG,
         "2 copies of files are damaged; 1 file has no good copy left"},
        {{.bad = 4, .lost = 2, .unseen = 9},
         -EBADMSG,
         "4 copies of files are damaged; 2 files have no good copy left"},
        {{.unseen = 1, .fewest = 1},
         -EHOSTUNREACH,
         "1 copy of a file could not be read; the copies that were read are good, and the file with "
         "the fewest has 1 of them"},
        {{.unseen = 3, .fewest = 2},
         -EHOSTUNREACH,
         "3 copies of files could not be read; the copies that were read are good, and the file with "
         "the fewest has 2 of them"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        assert_int_equal(copies_words(&cases[i].check, &error), cases[i].status);
        assert_string_equal(error.text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words_fit_the_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
