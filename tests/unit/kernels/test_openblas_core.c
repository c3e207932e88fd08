/* Tests of the core that is requested of OpenBLAS after it has chosen one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "kernels/openblas_core.h"

static void test_old_cores_give_way_to_what_the_processor_can_do(void **state)
{
    (void)state;
    static const struct {
        const char *core;
        bool avx2, avx512;
        const char *wanted;
    } cases[] = {
        {"Prescott", true, true, "SkylakeX"},    {"Prescott", true, false, "Haswell"},
        {"Prescott", false, false, NULL},        {"prescott", true, false, "Haswell"},
        {"Sandybridge", true, true, "SkylakeX"}, {"Core2", true, false, "Haswell"},
        {"Haswell", true, true, NULL}, /* the library has no better, or the system forbids it */
        {"SkylakeX", true, true, NULL},          {"Zen", true, false, NULL},
        {"Cooperlake", true, true, NULL},        {"armv8", false, false, NULL},
        {"Laterlake", true, true, NULL}, /* of a version that does not exist yet */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const char *wanted = openblas_core_wanted(cases[i].core, cases[i].avx2, cases[i].avx512);
        if (!cases[i].wanted)
            assert_null(wanted);
        else
            assert_string_equal(wanted, cases[i].wanted);
    }
}

static void test_the_environment_has_the_first_word(void **state)
{
    (void)state;
    const char *values[] = {"Haswell", "Prescott", ""};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        setenv(OPENBLAS_CORE_VARIABLE, values[i], 1);
        assert_null(openblas_core_better());
    }
    unsetenv(OPENBLAS_CORE_VARIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_cores_give_way_to_what_the_processor_can_do),
        cmocka_unit_test(test_the_environment_has_the_first_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
