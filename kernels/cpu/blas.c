#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <limits.h>
#include <omp.h>

#include "base/compiler.h"

static blasint dimension(size_t size)
{
    assert(size <= INT_MAX);
    return (blasint)size;
}

void blas_multiply(const struct blas_product *p)
{
    omp_set_num_threads(1); /* of this thread; costs a store */
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, p->left_transposed ? CblasTrans : CblasNoTrans,
                p->right_transposed ? CblasTrans : CblasNoTrans, dimension(p->m), dimension(p->n),
                dimension(p->k), p->alpha, p->left, dimension(p->left_stride), p->right,
                dimension(p->right_stride), p->beta, p->result, dimension(p->result_stride));
}
