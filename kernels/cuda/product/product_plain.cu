/* Plain products: one thread per element of the result, the inner dimension in index order. Slow,
 * but correct for any shape. */
#include "kernels/cuda/product/product.cuh"

#define TILE 16

template <typename In, typename Out>
static __global__ void __launch_bounds__(TILE *TILE) product_kernel(struct product p)
{
    size_t row = (size_t)blockIdx.x * TILE + threadIdx.x % TILE;
    const In *left = (const In *)p.left, *right = (const In *)p.right;
    Out *result = (Out *)p.result;

    if (row >= p.m)
        return;
    for (size_t column = (size_t)blockIdx.y * TILE + threadIdx.x / TILE; column < p.n;
         column += (size_t)gridDim.y * TILE) {
        float sum = 0.0f;
        for (size_t i = 0; i < p.k; i++) {
            size_t a = p.left_transposed ? row * p.left_leading + i : i * p.left_leading + row;
            size_t b =
                p.right_transposed ? i * p.right_leading + column : column * p.right_leading + i;
            sum += to_float(left[a]) * to_float(right[b]);
        }
        size_t place = column * p.result_leading + row;
        if (p.epilogue == PRODUCT_BIAS)
            sum += to_float(((const Out *)p.bias)[row]);
        if (p.accumulate)
            sum += to_float(result[place]);
        result[place] = from_float<Out>(sum);
    }
}

void product_plain(struct kernel_device *device, const struct product *p)
{
    unsigned columns = blocks_for(p->n, TILE);
    dim3 grid(blocks_for(p->m, TILE), columns < 65535u ? columns : 65535u);
    assert(p->epilogue == PRODUCT_PLAIN || p->epilogue == PRODUCT_BIAS);

    if (!p->bf16_inputs)
        LAUNCH((product_kernel<float, float>), grid, TILE * TILE, 0, device_stream(device), *p);
    else if (p->bf16_result)
        LAUNCH((product_kernel<bfloat, bfloat>), grid, TILE * TILE, 0, device_stream(device), *p);
    else
        LAUNCH((product_kernel<bfloat, float>), grid, TILE * TILE, 0, device_stream(device), *p);
    DEVICE_LAUNCHED(device, "a product");
}
