/*
 * The used part of cuDNN, opened at run time: graphs of operations on tensors of four
 * dimensions, and plans that compute such a graph with one kernel.
 *
 * Design: firn does not link cuDNN or include its headers. cudnn.cu and struct cudnn declare the
 * used part of its binary interface (the graph API, unchanged since 9.0). A graph is built
 * operation by operation. The graph records the first call that cuDNN refuses, and later calls do
 * nothing, so the caller has to check only cudnn_graph_plan().
 *
 * The engine of a graph is the first one from cuDNN's heuristic that is not marked as
 * nondeterministic, can be built, and fits the allowed workspace. The choice is a function of the
 * graph, the kind of device and the versions of cuDNN and NVRTC. A failure of this process alone
 * (no memory, a library that does not load) is an error and not a reason to take the next engine.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "kernels/cuda/platform.cuh"

#define CUDNN_DESCRIPTORS_MAX 160 /* per graph; attention's backward has about 120 */
#define CUDNN_OPERATIONS_MAX  32
#define CUDNN_MEMORY_MAX      16 /* tensors of a graph in memory, numbers included */
#define CUDNN_ALIGNMENT_BYTES 16 /* of each tensor in memory, as declared */

typedef void *cudnn_descriptor;

struct cudnn {
    void *handle;   /* NULL: not attached */
    size_t version; /* 91900 is 9.19.0 */
    size_t (*get_version)(void);
    const char *(*text)(int status);
    int (*create)(void **ret_handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, cudaStream_t stream);
    int (*make)(int kind, cudnn_descriptor *ret_descriptor);
    int (*drop)(cudnn_descriptor descriptor);
    int (*finalize)(cudnn_descriptor descriptor);
    int (*set)(cudnn_descriptor descriptor, int attribute, int type, int64_t count,
               const void *values);
    int (*get)(cudnn_descriptor descriptor, int attribute, int type, int64_t room,
               int64_t *ret_count, void *ret_values);
    int (*execute)(void *handle, cudnn_descriptor plan, cudnn_descriptor memory);
};

/**
 * cudnn_open() - open the library at @path, or by that name on the system's library path
 *
 * Return: 0; -ENOENT: no such library; -ELIBBAD: it is not cuDNN 9. @error has the reason. An
 * opened library stays loaded.
 */
int cudnn_open(const char *path, struct cudnn *ret_cudnn, struct error *error) CHECK_RESULT;
/** cudnn_attach() - compute on the process's current device, on @stream, which is borrowed; -EIO */
int cudnn_attach(struct cudnn *cudnn, cudaStream_t stream, struct error *error) CHECK_RESULT;
/** cudnn_detach() - detach, after the graphs are dropped; does nothing when not attached */
void cudnn_detach(struct cudnn *cudnn);

enum cudnn_type { CUDNN_F32 = 0, CUDNN_I32 = 4, CUDNN_BF16 = 9, CUDNN_BOOL = 11 };

enum cudnn_pointwise {
    CUDNN_ADD = 0,
    CUDNN_MUL = 1,
    CUDNN_DIV = 6,
    CUDNN_SUB = 9,
    CUDNN_EXP = 13,
    CUDNN_LOG = 15,
    CUDNN_AT_LEAST = 303, /* a >= b */
    CUDNN_INDEX = 501,    /* of an element along an axis */
    CUDNN_SELECT = 601    /* a where the mask holds, else b */
};

enum cudnn_reduction { CUDNN_SUM = 0, CUDNN_HIGHEST = 3 };

/* Sizes and strides in elements: batch, head, row, column. */
struct cudnn_layout {
    int64_t size[4], stride[4];
};

/* Zeroed, then .cudnn set, is a graph without operations. */
struct cudnn_graph {
    const struct cudnn *cudnn; /* borrowed */
    cudnn_descriptor made[CUDNN_DESCRIPTORS_MAX], operations[CUDNN_OPERATIONS_MAX];
    unsigned made_count, operation_count, memory_count;
    int status;       /* cuDNN's status of the first failed call */
    const char *call; /* name of that call */
    /* after cudnn_graph_plan() */
    cudnn_descriptor plan;
    size_t workspace_bytes;
    int64_t engine; /* cuDNN's number of the engine */
};

/** cudnn_graph_memory() - add a tensor in memory: the next entry of cudnn_graph_run()'s list */
cudnn_descriptor cudnn_graph_memory(struct cudnn_graph *graph, struct cudnn_layout layout,
                                    enum cudnn_type type);
/** cudnn_graph_number() - add one f32 in host memory, also an entry of that list */
cudnn_descriptor cudnn_graph_number(struct cudnn_graph *graph);
/** cudnn_graph_value() - add a tensor that only exists between operations */
cudnn_descriptor cudnn_graph_value(struct cudnn_graph *graph, struct cudnn_layout layout,
                                   enum cudnn_type type);

/** cudnn_graph_matmul() - add result = a b in f32, for each batch and head; if b has fewer heads,
 * neighbouring heads of a share each of them */
void cudnn_graph_matmul(struct cudnn_graph *graph, cudnn_descriptor a, cudnn_descriptor b,
                        cudnn_descriptor result);
/** cudnn_graph_pointwise() - add an elementwise operation; sizes of 1 are broadcast; @b and @mask
 * are NULL if @mode has none; @axis is for CUDNN_INDEX, else 0 */
void cudnn_graph_pointwise(struct cudnn_graph *graph, enum cudnn_pointwise mode, cudnn_descriptor a,
                           cudnn_descriptor b, cudnn_descriptor mask, unsigned axis,
                           cudnn_descriptor result);
/** cudnn_graph_reduce() - add a reduction over the sizes that are smaller in @result */
void cudnn_graph_reduce(struct cudnn_graph *graph, enum cudnn_reduction reduction,
                        cudnn_descriptor a, cudnn_descriptor result);
/** cudnn_graph_reshape() - add a reshape: @result has the elements of @a with its own strides */
void cudnn_graph_reshape(struct cudnn_graph *graph, cudnn_descriptor a, cudnn_descriptor result);

/**
 * cudnn_graph_plan() - choose the engine of the graph
 * @workspace_max: bytes
 *
 * Return: 0; -ENOSPC: an engine needs more workspace; -ENOTSUP: cuDNN refuses the graph, or no
 * engine is usable; -ENOMEM, -EIO: this process failed, so nothing is known about the graph. @error
 * has the reason.
 */
int cudnn_graph_plan(struct cudnn_graph *graph, size_t workspace_max,
                     struct error *error) CHECK_RESULT;

/** cudnn_graph_run() - launch the graph; return cuDNN's status, 0: launched; @memory in the order
 * of the tensors, @workspace of workspace_bytes on the device */
int cudnn_graph_run(const struct cudnn_graph *graph, void *const *memory,
                    void *workspace) CHECK_RESULT;

void cudnn_graph_drop(struct cudnn_graph *graph);
