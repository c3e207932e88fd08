/*
 * Attention as graphs of cuDNN, on the packed layout of attention.cuh, in bf16 with f32 sums.
 *
 * The operations are those that cuDNN's fused kernels are found by: forward is product, scale,
 * causal mask (a comparison of indices), softmax by its parts, product; it leaves the log-sum-exp
 * that attention_tiles.cu leaves too, so that one can compute forward and the other backward.
 * Backward makes the scores again. The gradient of the queries is written by its product, without
 * an f32 sum in memory that blocks would add to in any order: that is what makes the graph
 * deterministic, and on Hopper it costs a workspace of two bytes for each score.
 *
 * That is too much for a large micro-batch: a graph is then made for fewer samples and run several
 * times. Samples know nothing of each other, so this changes no bit.
 */
#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cudnn.cuh"

struct attention_graph {
    struct cudnn_graph graph;
    unsigned samples; /* of one run; divides the micro-batch. 0: there is no plan */
};

/**
 * attention_graph_forward() - plan forward of @view within @workspace_max bytes
 * Return: 0; -ENOTSUP, -ENOSPC: cuDNN does not compute it (@error), nothing is left to drop
 */
int attention_graph_forward(const struct cudnn *cudnn, const attention_view &view,
                            size_t workspace_max, struct attention_graph *ret_graph,
                            struct error *error) CHECK_RESULT;
int attention_graph_backward(const struct cudnn *cudnn, const attention_view &view,
                             size_t workspace_max, struct attention_graph *ret_graph,
                             struct error *error) CHECK_RESULT;
/** attention_graph_drop() - NULL-safe for one that was never planned */
void attention_graph_drop(struct attention_graph *graph);

/** attention_graph_run_forward() - cuDNN's status; @workspace of graph.workspace_bytes */
int attention_graph_run_forward(const struct attention_graph *graph, bfloat *output, float *log_sum,
                                const bfloat *qkv, const attention_view &view,
                                void *workspace) CHECK_RESULT;
/** attention_graph_run_backward() - @delta (B,H,T) f32 is overwritten */
int attention_graph_run_backward(const struct attention_graph *graph, bfloat *d_qkv,
                                 const bfloat *d_output, const bfloat *output, float *delta,
                                 const float *log_sum, const bfloat *qkv,
                                 const attention_view &view, void *workspace) CHECK_RESULT;
