#include "kernels/identity.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

void kernel_cpu_identity(char *ret_text, size_t size)
{
    const char *library = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
    size_t length = strcspn(library, " ");
    if (library[length] == ' ')
        length += 1 + strcspn(library + length + 1, " ");
    snprintf(ret_text, size, "%.*s %s, kernels %d", (int)length, library, openblas_get_corename(),
             KERNEL_ARITHMETIC);
}
