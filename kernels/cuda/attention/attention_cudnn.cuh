/*
 * Attention as graphs of cuDNN, on the packed layout of attention.cuh, in bf16 with f32 sums.
 *
 * The operations match the patterns of cuDNN's fused kernels: forward is product, scale, causal
 * mask (a comparison of indices), softmax in its parts, product. It keeps the same log-sum-exp as
 * attention_tiles.cu, so cuDNN can compute forward and our kernels backward, or the reverse.
 * Backward recomputes the scores. Its product writes the gradient of the queries directly, without
 * an f32 sum in memory to which blocks would add in any order. So the graph is deterministic; on
 * Hopper it costs a workspace of two bytes per score.
 *
 * For a large micro-batch that is too much, so the graph is made for fewer samples and run several
 * times. Samples are independent, so this changes no bit.
 */
#pragma once

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/cudnn.cuh"

struct attention_graph {
    struct cudnn_graph graph;
    unsigned samples; /* of one run; divides the micro-batch. 0: no plan */
};

/**
 * attention_graph_forward() - plan forward of @view within @workspace_max bytes
 * Return: 0; -ENOTSUP, -ENOSPC: cuDNN does not compute it (@error), the caller drops nothing;
 * -ENOMEM, -EIO: as cudnn_graph_plan()
 */
int attention_graph_forward(const struct cudnn *cudnn, const attention_view &view,
                            size_t workspace_max, struct attention_graph *ret_graph,
                            struct error *error) CHECK_RESULT;
int attention_graph_backward(const struct cudnn *cudnn, const attention_view &view,
                             size_t workspace_max, struct attention_graph *ret_graph,
                             struct error *error) CHECK_RESULT;
/** attention_graph_drop() - free the graph; a graph that was never planned is allowed */
void attention_graph_drop(struct attention_graph *graph);

/** attention_graph_run_forward() - run forward; @workspace of graph.workspace_bytes. Return:
 * cuDNN's status */
int attention_graph_run_forward(const struct attention_graph *graph, bfloat *output, float *log_sum,
                                const bfloat *qkv, const attention_view &view,
                                void *workspace) CHECK_RESULT;
/** attention_graph_run_backward() - run backward; @delta (B,H,T) f32 is overwritten */
int attention_graph_run_backward(const struct attention_graph *graph, bfloat *d_qkv,
                                 const bfloat *d_output, const bfloat *output, float *delta,
                                 const float *log_sum, const bfloat *qkv,
                                 const attention_view &view, void *workspace) CHECK_RESULT;
