/* Products as BLAS defines them, element by element; see cublasLt.h. */
#include <stdlib.h>

#include "cublasLt.h"
#include "device_memory.h"
#include "streams.h"

#define MATRIX_ALIGNMENT    16
#define WORKSPACE_ALIGNMENT 256

struct emulator_matmul {
    cublasOperation_t left, right;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    void *before;
    int64_t before_leading;
    bool tf32;
};

struct emulator_layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t leading;
};

struct emulator_preference {
    bool exact, bounded;
    unsigned alignments;
};

struct emulator_products {
    char nothing;
};

static bool knows_products = true, heuristic_fails;

void emulator_knows_products(bool known)
{
    knows_products = known;
}

void emulator_heuristic_fails(bool failing)
{
    heuristic_fails = failing;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret_handle)
{
    *ret_handle = new emulator_products();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 0;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret_matmul,
                                        cublasComputeType_t compute_type, cudaDataType)
{
    *ret_matmul = new emulator_matmul{CUBLAS_OP_N,
                                      CUBLAS_OP_N,
                                      CUBLASLT_EPILOGUE_DEFAULT,
                                      nullptr,
                                      nullptr,
                                      0,
                                      compute_type == CUBLAS_COMPUTE_32F_FAST_TF32};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul)
{
    delete matmul;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size_bytes)
{
    void *const places[] = {&matmul->left, &matmul->right,  &matmul->epilogue,
                            &matmul->bias, &matmul->before, &matmul->before_leading};
    const size_t sizes[] = {sizeof(matmul->left),     sizeof(matmul->right),
                            sizeof(matmul->epilogue), sizeof(matmul->bias),
                            sizeof(matmul->before),   sizeof(matmul->before_leading)};
    if (size_bytes != sizes[attribute])
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(places[attribute], value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret_layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
    *ret_layout = new emulator_layout{type, rows, columns, leading};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret_preference)
{
    *ret_preference = new emulator_preference();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size_bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        if (size_bytes != sizeof(uint64_t))
            return CUBLAS_STATUS_INVALID_VALUE;
        preference->bounded = true;
        return CUBLAS_STATUS_SUCCESS;
    }
    if (size_bytes != sizeof(uint32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        preference->exact =
            (*(const uint32_t *)value & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0;
    else
        preference->alignments++;
    return CUBLAS_STATUS_SUCCESS;
}

static bool reads_bias(const emulator_matmul *matmul)
{
    return matmul->epilogue == CUBLASLT_EPILOGUE_BIAS ||
           matmul->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static bool has_before(const emulator_matmul *matmul)
{
    return matmul->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           matmul->epilogue == CUBLASLT_EPILOGUE_DGELU;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t *ret_found,
                                              int *ret_count)
{
    /*
     * Without these the choice could depend on addresses, or add in no fixed order. The epilogue's
     * pointers are declared with the same alignment for every caller: the least that all callers
     * have.
     */
    assert(preference->exact && preference->bounded && preference->alignments == 4);
    assert(!reads_bias(matmul) || (uintptr_t)matmul->bias == MATRIX_ALIGNMENT);
    assert(!has_before(matmul) || (uintptr_t)matmul->before == MATRIX_ALIGNMENT);
    assert(requested >= 1);
    if (heuristic_fails)
        return CUBLAS_STATUS_INTERNAL_ERROR;
    ret_found->state = CUBLAS_STATUS_SUCCESS;
    *ret_count = knows_products ? 1 : 0;
    return knows_products ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *,
                                                    cublasLtMatmulAlgoConfigAttributes_t,
                                                    void *ret_value, size_t size_bytes,
                                                    size_t *ret_written)
{
    memset(ret_value, 0, size_bytes);
    *ret_written = size_bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static float read_at(const void *memory, const emulator_layout *layout, uint64_t row,
                     uint64_t column)
{
    uint64_t place = column * (uint64_t)layout->leading + row;
    uint32_t bits;
    float value;

    assert(row < layout->rows && column < layout->columns);
    if (layout->type == CUDA_R_32F)
        return ((const float *)memory)[place];
    bits = (uint32_t)((const uint16_t *)memory)[place] << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void write_at(void *memory, const emulator_layout *layout, uint64_t row, uint64_t column,
                     float value)
{
    uint64_t place = column * (uint64_t)layout->leading + row;
    uint32_t bits;

    if (layout->type == CUDA_R_32F) {
        ((float *)memory)[place] = value;
        return;
    }
    memcpy(&bits, &value, sizeof(bits));
    ((uint16_t *)memory)[place] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float gelu_of(float x)
{
    return (float)(0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
}

static float gelu_slope(float x)
{
    double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(inner);
    double rise = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x);
    return (float)(0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * rise);
}

/* A product with copies of all that describes it: a graph outlives the descriptors. */
struct product {
    emulator_matmul matmul;
    emulator_layout a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d;
    float scale, keep;
    bool left, right;
    uint64_t inner;
};

/* As a matrix unit reads an f32 in TF32: the ten bits of its fraction that come first. */
static float factor(float x, bool tf32)
{
    uint32_t bits;

    if (!tf32)
        return x;
    memcpy(&bits, &x, sizeof(bits));
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static float product_at(const product &p, uint64_t row, uint64_t column)
{
    bool tf32 = p.matmul.tf32;
    float sum = 0;

    for (uint64_t k = 0; k < p.inner; k++)
        sum += factor(read_at(p.a, &p.a_layout, p.left ? k : row, p.left ? row : k), tf32) *
               factor(read_at(p.b, &p.b_layout, p.right ? column : k, p.right ? k : column), tf32);
    sum *= p.scale;
    if (p.keep != 0)
        sum += p.keep * read_at(p.c, &p.c_layout, row, column);
    emulator_layout vector = {p.d_layout.type, p.d_layout.rows, 1, p.d_layout.leading};
    if (reads_bias(&p.matmul))
        sum += read_at(p.matmul.bias, &vector, row, 0);
    return sum;
}

static void run(const product &p)
{
    device_access access;

    for (uint64_t column = 0; column < p.d_layout.columns; column++)
        for (uint64_t row = 0; row < p.d_layout.rows; row++) {
            float sum = product_at(p, row, column);
            emulator_layout kept = p.d_layout;
            kept.leading = p.matmul.before_leading;
            if (p.matmul.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
                write_at(p.matmul.before, &kept, row, column, sum);
                sum = gelu_of(sum);
            } else if (p.matmul.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                sum *= gelu_slope(read_at(p.matmul.before, &kept, row, column));
            }
            write_at(p.d, &p.d_layout, row, column, sum);
        }
}

/* As the preferences have promised; a choice that relies on it would fault. */
static bool is_aligned(const void *memory)
{
    return memory != nullptr && (uintptr_t)memory % MATRIX_ALIGNMENT == 0;
}

static void check_matrix(const void *memory, const emulator_layout *layout)
{
    assert(is_aligned(memory) && layout->leading >= (int64_t)layout->rows);
    assert(layout->rows > 0 && layout->columns > 0);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t matmul, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    bool left = matmul->left == CUBLAS_OP_T, right = matmul->right == CUBLAS_OP_T;
    uint64_t inner = left ? a_layout->rows : a_layout->columns;
    const product p = {*matmul,
                       *a_layout,
                       *b_layout,
                       *c_layout,
                       *d_layout,
                       a,
                       b,
                       c,
                       d,
                       *(const float *)alpha,
                       *(const float *)beta,
                       left,
                       right,
                       inner};

    check_matrix(a, a_layout);
    check_matrix(b, b_layout);
    check_matrix(c, c_layout);
    check_matrix(d, d_layout);
    if (reads_bias(matmul))
        assert(is_aligned(matmul->bias));
    if (has_before(matmul))
        assert(is_aligned(matmul->before) && matmul->before_leading % 8 == 0 &&
               matmul->before_leading >= (int64_t)d_layout->rows);
    assert(workspace == nullptr || (uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0);
    assert(workspace_bytes == 0 || workspace != nullptr);
    assert(stream != nullptr && inner == (right ? b_layout->columns : b_layout->rows));
    assert((left ? a_layout->columns : a_layout->rows) == d_layout->rows);
    assert((right ? b_layout->rows : b_layout->columns) == d_layout->columns);
    stream_takes(stream, [p] { run(p); });
    return CUBLAS_STATUS_SUCCESS;
}
