/*
 * Token and position embedding. Backward splits the columns, not the rows, among the threads: two
 * rows may have the same token, and each column must see the rows in index order.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"

#define ROW_GRAIN    4
#define COLUMN_GRAIN 64

struct embedding {
    float *output;
    const float *token_table, *position_table;
    float *d_token_table, *d_position_table;
    const float *d_output;
    const int32_t *tokens;
    size_t rows, context, width;
};

static size_t token_at(const struct embedding *e, size_t row)
{
    assert(e->tokens[row] >= 0);
    return (size_t)e->tokens[row];
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    const struct embedding *e = context;
    (void)scratch;
    for (size_t row = begin; row < end; row++) {
        const float *token = e->token_table + token_at(e, row) * e->width;
        float *output = e->output + row * e->width;
        if (e->position_table)
            row_add(output, token, e->position_table + row % e->context * e->width, e->width);
        else
            memcpy(output, token, e->width * sizeof(float));
    }
}

static void backward_share(const void *context, size_t begin, size_t end,
                           struct device_scratch *scratch)
{
    const struct embedding *e = context;
    (void)scratch;
    for (size_t row = 0; row < e->rows; row++) {
        const float *d_output = e->d_output + row * e->width + begin;
        float *d_token = e->d_token_table + token_at(e, row) * e->width + begin;
        row_add(d_token, d_token, d_output, end - begin);
        if (e->d_position_table) {
            float *d_position = e->d_position_table + row % e->context * e->width + begin;
            row_add(d_position, d_position, d_output, end - begin);
        }
    }
}

void OPERATION(embedding_forward)(struct kernel_device *device, void *output, const int32_t *tokens,
                                  const void *token_table, const void *position_table, size_t batch,
                                  size_t context, size_t width)
{
    struct embedding e = {.output = output,
                          .token_table = token_table,
                          .position_table = position_table,
                          .tokens = tokens,
                          .rows = batch * context,
                          .context = context,
                          .width = width};
    device_for(device, e.rows, ROW_GRAIN, forward_share, &e);
}

void OPERATION(embedding_backward)(struct kernel_device *device, float *d_token_table,
                                   float *d_position_table, const void *d_output,
                                   const int32_t *tokens, size_t batch, size_t context,
                                   size_t width)
{
    struct embedding e = {.d_token_table = d_token_table,
                          .d_position_table = d_position_table,
                          .d_output = d_output,
                          .tokens = tokens,
                          .rows = batch * context,
                          .context = context,
                          .width = width};
    device_for(device, width, COLUMN_GRAIN, backward_share, &e);
}
