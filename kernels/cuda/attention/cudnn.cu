#include "kernels/cuda/attention/cudnn.cuh"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_MIN      90000
#define VERSION_MAX      99999
#define ENGINES_MAX      32 /* the first usable one is taken */
#define NOTES_MAX        16
#define NONDETERMINISTIC 4

/* Statuses of cuDNN 9: the first ones of their ranges, and single ones. */
#define STATUS_BAD_PARAM        2000
#define STATUS_NO_HOST_MEMORY   4003
#define STATUS_NO_DEVICE_MEMORY 4004
#define STATUS_EXECUTION        5000

/* ---- the used part of the library's binary interface ---- */

enum kind {
    KIND_POINTWISE = 0,
    KIND_ENGINE = 2,
    KIND_CONFIGURATION = 3,
    KIND_HEURISTIC = 4,
    KIND_PLAN = 5,
    KIND_POINTWISE_OPERATION = 13,
    KIND_GRAPH = 15,
    KIND_MEMORY = 16,
    KIND_TENSOR = 17,
    KIND_MATMUL = 18,
    KIND_MATMUL_OPERATION = 19,
    KIND_REDUCTION = 21,
    KIND_REDUCTION_OPERATION = 22,
    KIND_RESHAPE_OPERATION = 31
};

enum type {
    TYPE_HANDLE = 0,
    TYPE_DATA = 1,
    TYPE_BOOL = 2,
    TYPE_I64 = 3,
    TYPE_POINTER = 6,
    TYPE_HEURISTIC_MODE = 8,
    TYPE_NOTE = 11,
    TYPE_POINTWISE_MODE = 14,
    TYPE_DESCRIPTOR = 15,
    TYPE_REDUCTION = 18
};

enum attribute {
    POINTWISE_MODE = 0,
    POINTWISE_PRECISION = 1,
    POINTWISE_AXIS = 9,
    HEURISTIC_MODE = 200,
    HEURISTIC_GRAPH = 201,
    HEURISTIC_RESULTS = 202,
    CONFIGURATION_ENGINE = 300,
    PLAN_HANDLE = 400,
    PLAN_CONFIGURATION = 401,
    PLAN_WORKSPACE = 402,
    POINTWISE_OPERATION = 750,
    POINTWISE_A = 751,
    POINTWISE_B = 752,
    POINTWISE_RESULT = 753,
    POINTWISE_MASK = 758,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_NAME = 906,
    TENSOR_VIRTUAL = 907,
    TENSOR_BY_VALUE = 908,
    MEMORY_NAMES = 1000,
    MEMORY_POINTERS = 1001,
    MEMORY_WORKSPACE = 1003,
    ENGINE_NUMBER = 1301,
    ENGINE_NOTES = 1303,
    MATMUL_PRECISION = 1500,
    MATMUL_A = 1520,
    MATMUL_B = 1521,
    MATMUL_RESULT = 1522,
    MATMUL_OPERATION = 1523,
    REDUCTION_OPERATOR = 1600,
    REDUCTION_PRECISION = 1601,
    REDUCTION_A = 1610,
    REDUCTION_RESULT = 1611,
    REDUCTION_OPERATION = 1612,
    RESHAPE_A = 2200,
    RESHAPE_RESULT = 2201
};

/* cuDNN's heuristic for the kind of device ("mode A"), and its fallback. */
static const int heuristic_modes[] = {3, 2};

static int load(struct cudnn *c, const char *path, struct error *error)
{
    const struct {
        const char *name;
        void *place;
    } symbols[] = {
        {"cudnnGetVersion", &c->get_version},
        {"cudnnGetErrorString", &c->text},
        {"cudnnCreate", &c->create},
        {"cudnnDestroy", &c->destroy},
        {"cudnnSetStream", &c->set_stream},
        {"cudnnBackendCreateDescriptor", &c->make},
        {"cudnnBackendDestroyDescriptor", &c->drop},
        {"cudnnBackendFinalize", &c->finalize},
        {"cudnnBackendSetAttribute", &c->set},
        {"cudnnBackendGetAttribute", &c->get},
        {"cudnnBackendExecute", &c->execute},
    };

    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return error_set(error, -ENOENT, "no cuDNN: %s", dlerror());
    for (const auto &symbol : symbols) {
        void *found = dlsym(library, symbol.name);
        if (found == NULL)
            return error_set(error, -ELIBBAD, "%s lacks %s", path, symbol.name);
        memcpy(symbol.place, &found, sizeof(found));
    }
    c->version = c->get_version();
    if (c->version < VERSION_MIN || c->version > VERSION_MAX)
        return error_set(error, -ELIBBAD, "%s has version %zu, firn knows cuDNN 9", path,
                         c->version);
    return 0;
}

int cudnn_open(const char *path, struct cudnn *ret_cudnn, struct error *error)
{
    struct cudnn c = {};
    int status = load(&c, path, error);

    if (status == 0)
        *ret_cudnn = c;
    return status;
}

int cudnn_attach(struct cudnn *c, cudaStream_t stream, struct error *error)
{
    int status = c->create(&c->handle);

    if (status != 0)
        c->handle = NULL;
    else
        status = c->set_stream(c->handle, stream);
    return status == 0
               ? 0
               : error_set(
                     error, -EIO,
                     "cuDNN %zu does not take the device: %s (an empty FIRN_CUDNN_LIBRARY leaves it out)",
                     c->version, c->text(status));
}

void cudnn_detach(struct cudnn *c)
{
    if (c->handle != NULL)
        (void)c->destroy(c->handle);
    c->handle = NULL;
}

/* ---- building a graph ---- */

static void note(struct cudnn_graph *g, int status, const char *call)
{
    if (status == 0 || g->status != 0)
        return;
    g->status = status;
    g->call = call;
}

/* Make a descriptor; NULL after a failure. */
static cudnn_descriptor make(struct cudnn_graph *g, enum kind kind)
{
    cudnn_descriptor made = NULL;

    assert(g->made_count < CUDNN_DESCRIPTORS_MAX);
    if (g->status != 0)
        return NULL;
    note(g, g->cudnn->make(kind, &made), "making a descriptor");
    if (g->status != 0)
        return NULL;
    g->made[g->made_count++] = made;
    return made;
}

static void set(struct cudnn_graph *g, cudnn_descriptor descriptor, enum attribute attribute,
                enum type type, int64_t count, const void *values)
{
    if (g->status == 0)
        note(g, g->cudnn->set(descriptor, attribute, type, count, values), "an attribute");
}

static void set_one(struct cudnn_graph *g, cudnn_descriptor descriptor, enum attribute attribute,
                    enum type type, const void *value)
{
    set(g, descriptor, attribute, type, 1, value);
}

static void finish(struct cudnn_graph *g, cudnn_descriptor descriptor, const char *what)
{
    if (g->status == 0)
        note(g, g->cudnn->finalize(descriptor), what);
}

/* @name: 0 for a value that has no memory */
static cudnn_descriptor tensor(struct cudnn_graph *g, struct cudnn_layout layout,
                               enum cudnn_type type, int64_t name, bool by_value)
{
    const int64_t alignment = CUDNN_ALIGNMENT_BYTES;
    const int64_t unique = name != 0 ? name : CUDNN_MEMORY_MAX + 1 + (int64_t)g->made_count;
    const bool in_memory = name != 0, is_virtual = !in_memory;
    const int data_type = type;
    cudnn_descriptor t = make(g, KIND_TENSOR);

    set_one(g, t, TENSOR_TYPE, TYPE_DATA, &data_type);
    set(g, t, TENSOR_SIZES, TYPE_I64, 4, layout.size);
    set(g, t, TENSOR_STRIDES, TYPE_I64, 4, layout.stride);
    set_one(g, t, TENSOR_NAME, TYPE_I64, &unique);
    set_one(g, t, TENSOR_ALIGNMENT, TYPE_I64, &alignment);
    set_one(g, t, TENSOR_VIRTUAL, TYPE_BOOL, &is_virtual);
    set_one(g, t, TENSOR_BY_VALUE, TYPE_BOOL, &by_value);
    finish(g, t, "a tensor");
    return t;
}

cudnn_descriptor cudnn_graph_memory(struct cudnn_graph *g, struct cudnn_layout layout,
                                    enum cudnn_type type)
{
    assert(g->memory_count < CUDNN_MEMORY_MAX);
    return tensor(g, layout, type, ++g->memory_count, false);
}

cudnn_descriptor cudnn_graph_number(struct cudnn_graph *g)
{
    assert(g->memory_count < CUDNN_MEMORY_MAX);
    return tensor(g, {{1, 1, 1, 1}, {1, 1, 1, 1}}, CUDNN_F32, ++g->memory_count, true);
}

cudnn_descriptor cudnn_graph_value(struct cudnn_graph *g, struct cudnn_layout layout,
                                   enum cudnn_type type)
{
    return tensor(g, layout, type, 0, false);
}

static void add_operation(struct cudnn_graph *g, cudnn_descriptor operation)
{
    assert(g->operation_count < CUDNN_OPERATIONS_MAX);
    finish(g, operation, "an operation");
    g->operations[g->operation_count++] = operation;
}

void cudnn_graph_matmul(struct cudnn_graph *g, cudnn_descriptor a, cudnn_descriptor b,
                        cudnn_descriptor result)
{
    const int precision = CUDNN_F32;
    cudnn_descriptor matmul = make(g, KIND_MATMUL);

    set_one(g, matmul, MATMUL_PRECISION, TYPE_DATA, &precision);
    finish(g, matmul, "a product");
    cudnn_descriptor operation = make(g, KIND_MATMUL_OPERATION);
    set_one(g, operation, MATMUL_OPERATION, TYPE_DESCRIPTOR, &matmul);
    set_one(g, operation, MATMUL_A, TYPE_DESCRIPTOR, &a);
    set_one(g, operation, MATMUL_B, TYPE_DESCRIPTOR, &b);
    set_one(g, operation, MATMUL_RESULT, TYPE_DESCRIPTOR, &result);
    add_operation(g, operation);
}

/* Return the precision in which a mode computes. */
static int precision_of(enum cudnn_pointwise mode)
{
    return mode == CUDNN_AT_LEAST ? CUDNN_BOOL : mode == CUDNN_INDEX ? CUDNN_I32 : CUDNN_F32;
}

void cudnn_graph_pointwise(struct cudnn_graph *g, enum cudnn_pointwise mode, cudnn_descriptor a,
                           cudnn_descriptor b, cudnn_descriptor mask, unsigned axis,
                           cudnn_descriptor result)
{
    const int precision = precision_of(mode), which = mode;
    const int64_t along = axis;
    cudnn_descriptor pointwise = make(g, KIND_POINTWISE);

    set_one(g, pointwise, POINTWISE_MODE, TYPE_POINTWISE_MODE, &which);
    set_one(g, pointwise, POINTWISE_PRECISION, TYPE_DATA, &precision);
    if (mode == CUDNN_INDEX)
        set_one(g, pointwise, POINTWISE_AXIS, TYPE_I64, &along);
    finish(g, pointwise, "a pointwise mode");
    cudnn_descriptor operation = make(g, KIND_POINTWISE_OPERATION);
    set_one(g, operation, POINTWISE_OPERATION, TYPE_DESCRIPTOR, &pointwise);
    set_one(g, operation, POINTWISE_A, TYPE_DESCRIPTOR, &a);
    if (b != NULL)
        set_one(g, operation, POINTWISE_B, TYPE_DESCRIPTOR, &b);
    if (mask != NULL)
        set_one(g, operation, POINTWISE_MASK, TYPE_DESCRIPTOR, &mask);
    set_one(g, operation, POINTWISE_RESULT, TYPE_DESCRIPTOR, &result);
    add_operation(g, operation);
}

void cudnn_graph_reduce(struct cudnn_graph *g, enum cudnn_reduction reduction, cudnn_descriptor a,
                        cudnn_descriptor result)
{
    const int precision = CUDNN_F32, which = reduction;
    cudnn_descriptor reduce = make(g, KIND_REDUCTION);

    set_one(g, reduce, REDUCTION_OPERATOR, TYPE_REDUCTION, &which);
    set_one(g, reduce, REDUCTION_PRECISION, TYPE_DATA, &precision);
    finish(g, reduce, "a reduction");
    cudnn_descriptor operation = make(g, KIND_REDUCTION_OPERATION);
    set_one(g, operation, REDUCTION_OPERATION, TYPE_DESCRIPTOR, &reduce);
    set_one(g, operation, REDUCTION_A, TYPE_DESCRIPTOR, &a);
    set_one(g, operation, REDUCTION_RESULT, TYPE_DESCRIPTOR, &result);
    add_operation(g, operation);
}

void cudnn_graph_reshape(struct cudnn_graph *g, cudnn_descriptor a, cudnn_descriptor result)
{
    cudnn_descriptor operation = make(g, KIND_RESHAPE_OPERATION);

    set_one(g, operation, RESHAPE_A, TYPE_DESCRIPTOR, &a);
    set_one(g, operation, RESHAPE_RESULT, TYPE_DESCRIPTOR, &result);
    add_operation(g, operation);
}

/* ---- choosing an engine ---- */

/* The answer of a heuristic; its descriptors are dropped together. */
struct candidates {
    cudnn_descriptor heuristic, configurations[ENGINES_MAX];
    int64_t count;
};

static void drop_candidates(const struct cudnn *c, struct candidates *found)
{
    for (unsigned i = 0; i < ENGINES_MAX; i++)
        if (found->configurations[i] != NULL)
            (void)c->drop(found->configurations[i]);
    if (found->heuristic != NULL)
        (void)c->drop(found->heuristic);
}

/* Ask a heuristic for configurations, best first; return cuDNN's status. */
static int ask(const struct cudnn *c, cudnn_descriptor graph, int mode, struct candidates *found)
{
    int status = c->make(KIND_HEURISTIC, &found->heuristic);

    if (status == 0)
        status = c->set(found->heuristic, HEURISTIC_GRAPH, TYPE_DESCRIPTOR, 1, &graph);
    if (status == 0)
        status = c->set(found->heuristic, HEURISTIC_MODE, TYPE_HEURISTIC_MODE, 1, &mode);
    if (status == 0)
        status = c->finalize(found->heuristic);
    for (unsigned i = 0; i < ENGINES_MAX && status == 0; i++)
        status = c->make(KIND_CONFIGURATION, &found->configurations[i]);
    return status == 0 ? c->get(found->heuristic, HEURISTIC_RESULTS, TYPE_DESCRIPTOR, ENGINES_MAX,
                                &found->count, found->configurations)
                       : status;
}

/* Return whether a configuration's engine is deterministic, by its notes. */
static bool deterministic(const struct cudnn *c, cudnn_descriptor configuration,
                          int64_t *ret_number)
{
    cudnn_descriptor engine = NULL;
    int notes[NOTES_MAX];
    int64_t count = 0, one;
    bool is = c->make(KIND_ENGINE, &engine) == 0 &&
              c->get(configuration, CONFIGURATION_ENGINE, TYPE_DESCRIPTOR, 1, &one, &engine) == 0 &&
              c->get(engine, ENGINE_NUMBER, TYPE_I64, 1, &one, ret_number) == 0 &&
              c->get(engine, ENGINE_NOTES, TYPE_NOTE, NOTES_MAX, &count, notes) == 0;

    for (int64_t i = 0; i < count && i < NOTES_MAX; i++)
        is = is && notes[i] != NONDETERMINISTIC;
    if (engine != NULL)
        (void)c->drop(engine);
    return is;
}

/* Return whether a failure is specific to this process and time, and so says nothing about the
 * graph: memory, the library itself, the driver. A kernel that does not compile is not such a
 * failure: some engines never compile, on any machine with these libraries. */
static bool fails_here(int status)
{
    return (status > 0 && status < STATUS_BAD_PARAM) || status == STATUS_NO_HOST_MEMORY ||
           status == STATUS_NO_DEVICE_MEMORY || status >= STATUS_EXECUTION;
}

/* Build the plan of one configuration; return cuDNN's status, and a plan only with 0. */
static int build(const struct cudnn *c, cudnn_descriptor configuration, cudnn_descriptor *ret_plan,
                 size_t *ret_workspace_bytes)
{
    cudnn_descriptor plan = NULL;
    int64_t bytes = 0, one;
    int status = c->make(KIND_PLAN, &plan);

    if (status != 0)
        return status;
    status = c->set(plan, PLAN_HANDLE, TYPE_HANDLE, 1, &c->handle);
    if (status == 0)
        status = c->set(plan, PLAN_CONFIGURATION, TYPE_DESCRIPTOR, 1, &configuration);
    if (status == 0)
        status = c->finalize(plan);
    if (status == 0)
        status = c->get(plan, PLAN_WORKSPACE, TYPE_I64, 1, &one, &bytes);
    if (status == 0 && bytes < 0)
        status = STATUS_BAD_PARAM;
    if (status != 0) {
        (void)c->drop(plan);
        return status;
    }
    *ret_plan = plan;
    *ret_workspace_bytes = (size_t)bytes;
    return 0;
}

/* The reasons why no engine is usable, for messages. */
struct refusals {
    unsigned proposed, unordered, unbuilt, large;
    size_t least_bytes;
    int failure; /* cuDNN's status if the failure is specific to this process; 0: none */
};

/* Take the configuration if its engine is usable. */
static bool take(struct cudnn_graph *g, cudnn_descriptor configuration, size_t workspace_max,
                 struct refusals *refusals)
{
    cudnn_descriptor plan;
    size_t bytes;
    int64_t number;

    refusals->proposed++;
    if (!deterministic(g->cudnn, configuration, &number)) {
        refusals->unordered++;
        return false;
    }
    int status = build(g->cudnn, configuration, &plan, &bytes);
    if (status != 0) {
        refusals->unbuilt++;
        refusals->failure = fails_here(status) ? status : 0;
        return false;
    }
    if (bytes > workspace_max) {
        refusals->least_bytes =
            refusals->large++ == 0 || bytes < refusals->least_bytes ? bytes : refusals->least_bytes;
        (void)g->cudnn->drop(plan);
        return false;
    }
    g->plan = plan;
    g->workspace_bytes = bytes;
    g->engine = number;
    return true;
}

static bool take_first(struct cudnn_graph *g, const struct candidates *found, size_t workspace_max,
                       struct refusals *refusals)
{
    for (int64_t i = 0; i < found->count && i < ENGINES_MAX && refusals->failure == 0; i++)
        if (take(g, found->configurations[i], workspace_max, refusals))
            return true;
    return false;
}

static int failed_here(const struct cudnn_graph *g, const char *call, int status,
                       struct error *error)
{
    bool memory = status == STATUS_NO_HOST_MEMORY || status == STATUS_NO_DEVICE_MEMORY;

    return error_set(error, memory ? -ENOMEM : -EIO, "%s failed on this machine: %s", call,
                     g->cudnn->text(status));
}

static int refused(const struct cudnn_graph *g, const struct refusals *r, struct error *error)
{
    if (r->failure != 0)
        return failed_here(g, "building an engine", r->failure, error);
    return error_set(error, r->large > 0 ? -ENOSPC : -ENOTSUP,
                     "of %u engines %u are not deterministic, %u do not build, %u want more "
                     "workspace (the least %zu MiB)",
                     r->proposed, r->unordered, r->unbuilt, r->large, r->least_bytes >> 20);
}

int cudnn_graph_plan(struct cudnn_graph *g, size_t workspace_max, struct error *error)
{
    cudnn_descriptor graph = make(g, KIND_GRAPH);
    struct refusals refusals = {};
    bool taken = false;

    set(g, graph, GRAPH_OPERATIONS, TYPE_DESCRIPTOR, g->operation_count, g->operations);
    set_one(g, graph, GRAPH_HANDLE, TYPE_HANDLE, &g->cudnn->handle);
    finish(g, graph, "the graph");
    if (g->status != 0)
        return fails_here(g->status) ? failed_here(g, g->call, g->status, error)
                                     : error_set(error, -ENOTSUP, "%s is refused: %s", g->call,
                                                 g->cudnn->text(g->status));
    for (unsigned i = 0;
         i < sizeof(heuristic_modes) / sizeof(int) && !taken && refusals.failure == 0; i++) {
        struct candidates found = {};
        int status = ask(g->cudnn, graph, heuristic_modes[i], &found);
        if (status == 0)
            taken = take_first(g, &found, workspace_max, &refusals);
        else if (fails_here(status))
            refusals.failure = status;
        drop_candidates(g->cudnn, &found);
    }
    return taken ? 0 : refused(g, &refusals, error);
}

int cudnn_graph_run(const struct cudnn_graph *g, void *const *memory, void *workspace)
{
    const struct cudnn *c = g->cudnn;
    int64_t names[CUDNN_MEMORY_MAX];
    cudnn_descriptor pack = NULL;

    for (unsigned i = 0; i < g->memory_count; i++)
        names[i] = i + 1;
    int status = c->make(KIND_MEMORY, &pack);
    if (status == 0)
        status = c->set(pack, MEMORY_NAMES, TYPE_I64, g->memory_count, names);
    if (status == 0)
        status = c->set(pack, MEMORY_POINTERS, TYPE_POINTER, g->memory_count, memory);
    if (status == 0)
        status = c->set(pack, MEMORY_WORKSPACE, TYPE_POINTER, 1, &workspace);
    if (status == 0)
        status = c->finalize(pack);
    if (status == 0)
        status = c->execute(c->handle, g->plan, pack);
    if (pack != NULL)
        (void)c->drop(pack);
    return status;
}

void cudnn_graph_drop(struct cudnn_graph *g)
{
    if (g->plan != NULL)
        (void)g->cudnn->drop(g->plan);
    while (g->made_count > 0)
        (void)g->cudnn->drop(g->made[--g->made_count]);
    g->plan = NULL;
    g->workspace_bytes = 0;
    g->operation_count = g->memory_count = 0;
}
