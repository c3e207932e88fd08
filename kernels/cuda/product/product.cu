#include "kernels/cuda/product/product.cuh"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SHAPES_MAX      256
#define ALIGNMENT_BYTES 16u
/* Not memory: an address with an alignment of exactly ALIGNMENT_BYTES. */
#define ALIGNED_ADDRESS ((void *)(uintptr_t)ALIGNMENT_BYTES)

struct product_choice {
    size_t m, n, k, left_leading, right_leading, result_leading;
    unsigned flags; /* all other inputs of the choice */
    bool known;     /* false: cuBLASLt has no algorithm */
    cublasLtMatmulAlgo_t algorithm;
};

struct product_cache {
    unsigned count;
    struct product_choice choices[SHAPES_MAX];
};

/* One product as cuBLASLt sees it. */
struct operation {
    cublasLtMatmulDesc_t matmul;
    cublasLtMatrixLayout_t left, right, result;
};

int product_cache_new(struct product_cache **ret_cache)
{
    *ret_cache = (struct product_cache *)calloc(1, sizeof(**ret_cache));
    return *ret_cache == NULL ? -ENOMEM : 0;
}

void product_cache_free(struct product_cache *cache)
{
    free(cache);
}

static struct product with_leading(const struct product *asked)
{
    struct product p = *asked;

    if (p.left_leading == 0)
        p.left_leading = p.left_transposed ? p.k : p.m;
    if (p.right_leading == 0)
        p.right_leading = p.right_transposed ? p.n : p.k;
    if (p.result_leading == 0)
        p.result_leading = p.m;
    return p;
}

static unsigned flags_of(const struct product *p)
{
    return (unsigned)p->left_transposed | (unsigned)p->right_transposed << 1 |
           (unsigned)p->bf16_inputs << 2 | (unsigned)p->bf16_result << 3 |
           (unsigned)p->accumulate << 4 | (unsigned)p->epilogue << 5;
}

static cublasComputeType_t compute_type(const struct kernel_device *device)
{
    return device->precision == CUDA_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cublasStatus_t set(cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t size_bytes)
{
    return cublasLtMatmulDescSetAttribute(matmul, attribute, value, size_bytes);
}

static bool has_bias(const struct product *p)
{
    return p->epilogue == PRODUCT_BIAS || p->epilogue == PRODUCT_GELU;
}

static bool has_before(const struct product *p)
{
    return p->epilogue == PRODUCT_GELU || p->epilogue == PRODUCT_GELU_GRADIENT;
}

static cublasStatus_t set_epilogue(cublasLtMatmulDesc_t matmul, const struct product *p)
{
    static const cublasLtEpilogue_t epilogues[] = {
        CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU};
    int64_t leading = (int64_t)p->result_leading;
    cublasStatus_t status =
        set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[p->epilogue], sizeof(epilogues[0]));

    if (status == CUBLAS_STATUS_SUCCESS && has_before(p))
        status = set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &leading, sizeof(leading));
    return status;
}

/* Set the pointers that the epilogue reads and writes beside the result. */
static cublasStatus_t set_pointers(cublasLtMatmulDesc_t matmul, const struct product *p,
                                   const void *bias, void *before)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    if (has_bias(p))
        status = set(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    if (status == CUBLAS_STATUS_SUCCESS && has_before(p))
        status = set(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &before, sizeof(before));
    return status;
}

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *ret_layout, bool bf16, size_t rows,
                                  size_t columns, size_t leading)
{
    return cublasLtMatrixLayoutCreate(ret_layout, bf16 ? CUDA_R_16BF : CUDA_R_32F, rows, columns,
                                      (int64_t)leading);
}

static cublasStatus_t operation_init(struct operation *o, const struct kernel_device *device,
                                     const struct product *p)
{
    cublasOperation_t left = p->left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t right = p->right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status;

    *o = {};
    status = cublasLtMatmulDescCreate(&o->matmul, compute_type(device), CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(o->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof(left));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(o->matmul, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof(right));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_epilogue(o->matmul, p);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&o->left, p->bf16_inputs, p->left_transposed ? p->k : p->m,
                             p->left_transposed ? p->m : p->k, p->left_leading);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&o->right, p->bf16_inputs, p->right_transposed ? p->n : p->k,
                             p->right_transposed ? p->k : p->n, p->right_leading);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&o->result, p->bf16_result, p->m, p->n, p->result_leading);
    return status;
}

static void operation_done(struct operation *o)
{
    if (o->matmul != NULL)
        (void)cublasLtMatmulDescDestroy(o->matmul);
    if (o->left != NULL)
        (void)cublasLtMatrixLayoutDestroy(o->left);
    if (o->right != NULL)
        (void)cublasLtMatrixLayoutDestroy(o->right);
    if (o->result != NULL)
        (void)cublasLtMatrixLayoutDestroy(o->result);
}

static cublasStatus_t make_preference(cublasLtMatmulPreference_t *ret_preference)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = ALIGNMENT_BYTES;
    uint64_t workspace_bytes = CUDA_PRODUCT_WORKSPACE_BYTES;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(ret_preference);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(*ret_preference,
                                                      CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reduction, sizeof(reduction));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(*ret_preference,
                                                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes, sizeof(workspace_bytes));
    for (unsigned i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulPreferenceSetAttribute(*ret_preference, alignments[i], &alignment,
                                                      sizeof(alignment));
    return status;
}

/* Choose by the heuristic's first answer; "no algorithm" is an answer too. The heuristic reads the
 * alignment of the epilogue's pointers, and no preference can declare it. So it gets a pointer with
 * only the alignment common to all addresses; otherwise the addresses of the first call would
 * decide for later calls. A call that fails for another reason is not an answer: other devices of
 * this kind would get a different one. */
static void choose(struct kernel_device *device, const struct product *p, const struct operation *o,
                   struct product_choice *choice)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    cublasStatus_t status = make_preference(&preference);

    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_pointers(o->matmul, p, ALIGNED_ADDRESS, ALIGNED_ADDRESS);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulAlgoGetHeuristic(device->products, o->matmul, o->left, o->right,
                                           o->result, o->result, preference, 1, &found, &count);
    /* Both statuses mean that there is no algorithm for the product, on every machine. */
    bool none = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
    if (status != CUBLAS_STATUS_SUCCESS && !none)
        device_fail(device, "choosing an algorithm of cuBLASLt", cublasLtGetStatusString(status));
    choice->known =
        status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    choice->algorithm = found.algo;
    if (preference != NULL)
        (void)cublasLtMatmulPreferenceDestroy(preference);
}

static bool chosen_for(const struct product_choice *choice, const struct product *p)
{
    return choice->m == p->m && choice->n == p->n && choice->k == p->k &&
           choice->left_leading == p->left_leading && choice->right_leading == p->right_leading &&
           choice->result_leading == p->result_leading && choice->flags == flags_of(p);
}

static const struct product_choice *choice_of(struct kernel_device *device, const struct product *p,
                                              const struct operation *o)
{
    struct product_cache *cache = device->cache;

    for (unsigned i = 0; i < cache->count; i++)
        if (chosen_for(&cache->choices[i], p))
            return &cache->choices[i];
    if (cache->count == SHAPES_MAX) /* more shapes than any model has: choose every time */
        cache->count--;
    struct product_choice *choice = &cache->choices[cache->count++];
    choice->m = p->m;
    choice->n = p->n;
    choice->k = p->k;
    choice->left_leading = p->left_leading;
    choice->right_leading = p->right_leading;
    choice->result_leading = p->result_leading;
    choice->flags = flags_of(p);
    choose(device, p, o, choice);
    return choice;
}

bool product_is_known(struct kernel_device *device, const struct product *asked)
{
    const struct product p = with_leading(asked);
    struct operation o;
    bool known =
        operation_init(&o, device, &p) == CUBLAS_STATUS_SUCCESS && choice_of(device, &p, &o)->known;

    operation_done(&o);
    return known;
}

void product_run(struct kernel_device *device, const struct product *asked)
{
    const struct product all = with_leading(asked), *p = &all;
    struct operation o;
    float one = 1.0f, beta = p->accumulate ? 1.0f : 0.0f;
    const struct product_choice *choice;
    cublasStatus_t status;

    if (p->m == 0 || p->n == 0)
        return;
    status = operation_init(&o, device, p);
    if (status == CUBLAS_STATUS_SUCCESS) {
        choice = choice_of(device, p, &o);
        if (choice->known)
            status = set_pointers(o.matmul, p, p->bias, p->before);
        if (choice->known && status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmul(device->products, o.matmul, &one, p->left, o.left, p->right,
                                    o.right, &beta, p->result, o.result, p->result, o.result,
                                    &choice->algorithm, device->product_workspace,
                                    CUDA_PRODUCT_WORKSPACE_BYTES, device_stream(device));
        else if (!choice->known)
            product_plain(device, p);
    }
    operation_done(&o);
    if (status != CUBLAS_STATUS_SUCCESS) {
        char text[200];
        snprintf(text, sizeof(text),
                 "a product of %zux%zux%zu flags %02x, columns %zu, %zu and %zu apart: %s", p->m,
                 p->n, p->k, flags_of(p), p->left_leading, p->right_leading, p->result_leading,
                 cublasLtGetStatusString(status));
        device_fail(device, "cuBLASLt", text);
    }
}

static unsigned config_of(const cublasLtMatmulAlgo_t *algorithm,
                          cublasLtMatmulAlgoConfigAttributes_t attribute)
{
    uint32_t value = 0;
    size_t written = 0;
    (void)cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, &value, sizeof(value),
                                               &written);
    return value;
}

/* Digest the whole description of an algorithm, including configurations that are not printed. It
 * helps people to compare logs; bytes without a meaning may differ between two processes. */
static unsigned long long algorithm_digest(const cublasLtMatmulAlgo_t *algorithm)
{
    const unsigned char *bytes = (const unsigned char *)algorithm;
    unsigned long long digest = 0xcbf29ce484222325u; /* FNV-1a */

    for (size_t i = 0; i < sizeof(*algorithm); i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

/* Name the shape; distances between columns only if the columns are not dense. */
static int name_shape(const struct product_choice *c, char *ret_text, size_t size)
{
    bool dense = c->left_leading == (c->flags & 1 ? c->k : c->m) &&
                 c->right_leading == (c->flags & 2 ? c->n : c->k) && c->result_leading == c->m;

    return dense ? snprintf(ret_text, size, "%zux%zux%zu flags %02x", c->m, c->n, c->k, c->flags)
                 : snprintf(ret_text, size, "%zux%zux%zu flags %02x columns %zu, %zu, %zu apart",
                            c->m, c->n, c->k, c->flags, c->left_leading, c->right_leading,
                            c->result_leading);
}

void product_describe(const struct kernel_device *device, char *ret_text, size_t size)
{
    size_t used = 0;

    ret_text[0] = '\0';
    for (unsigned i = 0; i < device->cache->count && used < size; i++) {
        const struct product_choice *c = &device->cache->choices[i];
        const cublasLtMatmulAlgo_t *a = &c->algorithm;
        int length = name_shape(c, ret_text + used, size - used);
        used += length > 0 ? (size_t)length : 0;
        if (used >= size)
            return;
        length = c->known ? snprintf(ret_text + used, size - used,
                                     ": algorithm %u tile %u stages %u split-k %u reduction %u "
                                     "(digest %08llx)\n",
                                     config_of(a, CUBLASLT_ALGO_CONFIG_ID),
                                     config_of(a, CUBLASLT_ALGO_CONFIG_TILE_ID),
                                     config_of(a, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                                     config_of(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                                     config_of(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                                     algorithm_digest(a) & 0xffffffffu)
                          : snprintf(ret_text + used, size - used, ": plain\n");
        used += length > 0 ? (size_t)length : 0;
    }
}
