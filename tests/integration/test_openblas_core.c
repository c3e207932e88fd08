/*
 * The OpenBLAS core that firn-worker reports, for each core requested of OpenBLAS: the setting of
 * the environment holds, even if it is slow; without a setting, firn-worker takes no core that is
 * worse than the processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "kernels/openblas_core.h"

#define TEXT_SIZE 1024

/* Return firn-worker's answer and its warnings together; @core: NULL: no core is requested. */
static void ask(const char *core, char ret_text[TEXT_SIZE])
{
    if (core)
        setenv(OPENBLAS_CORE_VARIABLE, core, 1);
    else
        unsetenv(OPENBLAS_CORE_VARIABLE);
    FILE *pipe = popen("exec '" FIRN_WORKER "' identity cpu 2>&1", "r");
    assert_non_null(pipe);
    size_t length = fread(ret_text, 1, TEXT_SIZE - 1, pipe);
    ret_text[length] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(strstr(ret_text, "OpenBLAS "));
}

static bool has_avx2(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static void test_a_core_that_is_asked_for_computes(void **state)
{
    (void)state;
    char text[TEXT_SIZE], other[TEXT_SIZE];
    if (!has_avx2())
        skip();
    ask("Prescott", text);
    assert_non_null(strstr(text, " Prescott, kernels "));
    assert_non_null(strstr(text, "warning: OpenBLAS computes as on a core of the kind Prescott "
                                 "(OPENBLAS_CORETYPE=Prescott)"));
    ask("Haswell", other);
    assert_non_null(strstr(other, " Haswell, kernels "));
    assert_null(strstr(other, "warning"));
    assert_string_not_equal(text, other); /* so no job has both */
}

static void test_nothing_slow_is_chosen_unasked(void **state)
{
    (void)state;
    char text[TEXT_SIZE], again[TEXT_SIZE], core[TEXT_SIZE] = "";
    ask(NULL, text);
    assert_null(strstr(text, "warning"));
    assert_int_equal(sscanf(text, "OpenBLAS %*s %1000[^,]", core), 1);
    assert_null(openblas_core_wanted(core, has_avx2(), false));
    ask(NULL, again);
    assert_string_equal(text, again);
    ask(core, again); /* as if an operator had set it */
    assert_string_equal(text, again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_core_that_is_asked_for_computes),
        cmocka_unit_test(test_nothing_slow_is_chosen_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
