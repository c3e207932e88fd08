/* Tests of the choice of a backend, as far as they need no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "kernels/backend.h"

static void test_a_library_that_is_missing_is_named(void **state)
{
    struct error error = {0};
    char text[64];

    (void)state;
    setenv("FIRN_CUDA_LIBRARY", "/nowhere/libfirn-cuda.so", 1);
    assert_int_equal(kernel_backend_identity(KERNEL_BACKEND_CUDA, text, sizeof(text), &error),
                     -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere/libfirn-cuda.so was not found"));
}

/* Two nodes with equal identities compute alike, in any environment. */
static void test_the_environment_changes_no_precision(void **state)
{
    struct error error = {0};
    char text[64];

    (void)state;
    setenv("FIRN_CUDA_LIBRARY", "/nowhere/libfirn-cuda.so", 1);
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
    assert_true(kernel_backend_identity(KERNEL_BACKEND_CUDA, text, sizeof(text), &error) < 0);
    assert_null(getenv("NVIDIA_TF32_OVERRIDE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_library_that_is_missing_is_named),
        cmocka_unit_test(test_the_environment_changes_no_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
