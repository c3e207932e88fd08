/*
 * A stand-in for cuDNN's graph API, with the numbers of its binary interface. A descriptor holds
 * the attributes set on it; a plan knows its graph; executing a plan walks over the operations in
 * their given order and computes each, element by element, from the results of the operations
 * before. Values that have no memory are kept by their strides, as a reshape sees them.
 */
#include "emulator/fake_cudnn.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <vector>

enum {
    GOOD = 0,
    BAD = 2000,
    REFUSED = 3000,
    NO_COMPILE = 4001,
    NO_MEMORY = 4004,
    NO_DRIVER = 5001
};
enum { F32 = 0, I32 = 4, BF16 = 9, BOOL = 11 };
enum {
    POINTWISE = 13,
    GRAPH = 15,
    TENSOR = 17,
    MATMUL = 19,
    REDUCTION = 22,
    RESHAPE = 31,
    ENGINE = 2,
    CONFIGURATION = 3,
    HEURISTIC = 4,
    PLAN = 5
};

struct descriptor {
    int kind;
    bool finished;
    std::map<int, std::vector<char>> attributes;
    int64_t number; /* engine */
    descriptor *graph;
};

struct handle {
    void *stream;
};

#define GREED 40000

static enum fake_cudnn_manner manner;
static struct fake_cudnn_device device;
static unsigned runs;

extern "C" void fake_cudnn_behave(enum fake_cudnn_manner wanted, struct fake_cudnn_device emulated)
{
    manner = wanted;
    device = emulated;
}

extern "C" unsigned fake_cudnn_runs(void)
{
    return runs;
}

template <typename T> static T value_of(const descriptor *d, int attribute, size_t index = 0)
{
    T value;
    const std::vector<char> &bytes = d->attributes.at(attribute);
    assert(bytes.size() >= (index + 1) * sizeof(T));
    memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

/* ---- tensors ---- */

typedef std::map<int64_t, std::vector<float>> values_by_name;

struct tensor {
    int type;
    int64_t size[4], stride[4], name;
    bool has_memory, by_value;
    char *memory;
    std::vector<float> *value;

    tensor(const descriptor *d, const std::map<int64_t, void *> &pointers, values_by_name &values)
        : type(value_of<int>(d, 901)), name(value_of<int64_t>(d, 906)),
          has_memory(!value_of<bool>(d, 907)), by_value(value_of<bool>(d, 908)), memory(nullptr),
          value(nullptr)
    {
        int64_t last = 0;
        assert(d->kind == TENSOR && d->finished);
        for (int i = 0; i < 4; i++) {
            size[i] = value_of<int64_t>(d, 902, (size_t)i);
            stride[i] = value_of<int64_t>(d, 903, (size_t)i);
            last += (size[i] - 1) * stride[i];
        }
        if (has_memory) {
            memory = (char *)pointers.at(name);
            assert(by_value || (uintptr_t)memory % 16 == 0);
            return;
        }
        value = &values[name];
        value->resize((size_t)last + 1);
    }

    float read_at(int64_t offset) const
    {
        if (!has_memory)
            return (*value)[(size_t)offset];
        if (type == F32)
            return ((const float *)memory)[offset];
        uint32_t bits = (uint32_t)((const uint16_t *)memory)[offset] << 16;
        float x;
        memcpy(&x, &bits, sizeof(x));
        return x;
    }

    void write_at(int64_t offset, float x) const
    {
        uint32_t bits;
        memcpy(&bits, &x, sizeof(bits));
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        if (has_memory && type == BF16)
            ((uint16_t *)memory)[offset] = (uint16_t)(bits >> 16);
        else if (has_memory)
            ((float *)memory)[offset] = x;
        else {
            if (type == BF16)
                memcpy(&x, &bits, sizeof(x));
            (*value)[(size_t)offset] = x;
        }
    }

    /* An index along an axis of another size: size 1 is broadcast, fewer heads are shared. */
    int64_t offset(const int64_t *index, const int64_t *of_size) const
    {
        int64_t sum = 0;
        for (int i = 0; i < 4; i++)
            sum += index[i] * size[i] / of_size[i] * stride[i];
        return sum;
    }

    float read(const int64_t *index, const int64_t *of_size) const
    {
        return read_at(offset(index, of_size));
    }
};

template <typename F> static void each(const int64_t *size, F visit)
{
    int64_t i[4];
    for (i[0] = 0; i[0] < size[0]; i[0]++)
        for (i[1] = 0; i[1] < size[1]; i[1]++)
            for (i[2] = 0; i[2] < size[2]; i[2]++)
                for (i[3] = 0; i[3] < size[3]; i[3]++)
                    visit(i);
}

/* ---- operations ---- */

struct execution {
    const descriptor *graph;
    std::map<int64_t, void *> pointers;
    std::map<int64_t, float> numbers; /* tensors by value: as they were when it was asked for */
    values_by_name values;

    tensor at(const descriptor *operation, int attribute)
    {
        return tensor(value_of<const descriptor *>(operation, attribute), pointers, values);
    }
};

static void matmul(execution &run, const descriptor *operation)
{
    tensor a = run.at(operation, 1520), b = run.at(operation, 1521), c = run.at(operation, 1522);

    assert(a.size[3] == b.size[2] && a.size[2] == c.size[2] && b.size[3] == c.size[3]);
    assert(a.size[0] == c.size[0] && c.size[1] % a.size[1] == 0 && c.size[1] % b.size[1] == 0);
    each(c.size, [&](const int64_t *i) {
        float sum = 0;
        for (int64_t k = 0; k < a.size[3]; k++) {
            const int64_t left[] = {i[0], i[1] * a.size[1] / c.size[1], i[2], k};
            const int64_t right[] = {i[0], i[1] * b.size[1] / c.size[1], k, i[3]};
            sum += a.read(left, a.size) * b.read(right, b.size);
        }
        c.write_at(c.offset(i, c.size), sum);
    });
}

static float pointwise_of(int mode, float a, float b)
{
    switch (mode) {
    case 0:
        return a + b;
    case 1:
        return a * b;
    case 6:
        return a / b;
    case 9:
        return a - b;
    case 13:
        return expf(a);
    case 15:
        return logf(a);
    case 303:
        return a >= b;
    default:
        assert(!"a mode that attention does not need");
        return NAN;
    }
}

static void pointwise(execution &run, const descriptor *operation)
{
    const descriptor *how = value_of<const descriptor *>(operation, 750);
    int mode = value_of<int>(how, 0);
    tensor a = run.at(operation, 751), y = run.at(operation, 753);
    tensor b = operation->attributes.count(752) ? run.at(operation, 752) : a;
    tensor mask = operation->attributes.count(758) ? run.at(operation, 758) : a;

    assert((mode == 601) == (operation->attributes.count(758) == 1));
    each(y.size, [&](const int64_t *i) {
        float x = a.read(i, y.size), other = b.read(i, y.size);
        float result = mode == 501   ? (float)i[value_of<int64_t>(how, 9)]
                       : mode == 601 ? (mask.read(i, y.size) != 0 ? x : other)
                                     : pointwise_of(mode, x, other);
        y.write_at(y.offset(i, y.size), result);
    });
}

static void reduce(execution &run, const descriptor *operation)
{
    bool highest = value_of<int>(value_of<const descriptor *>(operation, 1612), 1600) == 3;
    tensor a = run.at(operation, 1610), y = run.at(operation, 1611);
    std::vector<float> sums((size_t)(y.size[0] * y.size[1] * y.size[2] * y.size[3]),
                            highest ? -INFINITY : 0.0f);
    size_t place = 0;
    auto sum_at = [&](const int64_t *i) -> float & {
        int64_t dense = 0;
        for (int axis = 0; axis < 4; axis++)
            dense = dense * y.size[axis] + i[axis] * y.size[axis] / a.size[axis];
        return sums[(size_t)dense];
    };

    each(a.size, [&](const int64_t *i) {
        float x = a.read(i, a.size), &sum = sum_at(i);
        sum = highest ? std::max(sum, x) : sum + x;
    });
    each(y.size, [&](const int64_t *i) { y.write_at(y.offset(i, y.size), sums[place++]); });
}

/* The same memory under other sizes and strides. */
static void reshape(execution &run, const descriptor *operation)
{
    tensor a = run.at(operation, 2200), y = run.at(operation, 2201);
    each(y.size, [&](const int64_t *i) {
        int64_t offset = y.offset(i, y.size);
        y.write_at(offset, a.read_at(offset));
    });
}

/* Return what the largest results of a run are multiplied with. */
static float spoilt_by(int64_t samples)
{
    switch (manner) {
    case FAKE_CUDNN_WRONG:
        return 0.75f;
    case FAKE_CUDNN_OTHER_BITS:
        return 1.0f + (float)(runs % 4) / 256;
    case FAKE_CUDNN_SELDOM:
        return runs % 6 == 0 ? 1.0f + 1.0f / 128 : 1.0f;
    case FAKE_CUDNN_LARGE:
        return samples > 2 ? 1.0f + (float)(runs % 4) / 256 : 1.0f;
    default:
        return 1.0f;
    }
}

/* Spoil the largest results in bf16 memory, for tests compare these. */
static void spoil(execution &run, const descriptor *operation)
{
    if (operation->kind != MATMUL)
        return;
    tensor y = run.at(operation, 1522);
    float factor = spoilt_by(y.size[0]);
    if (y.has_memory && factor != 1.0f)
        each(y.size, [&](const int64_t *i) {
            int64_t offset = y.offset(i, y.size);
            y.write_at(offset, y.read_at(offset) * factor);
        });
}

static size_t operation_count(const descriptor *graph)
{
    return graph->attributes.at(801).size() / sizeof(descriptor *);
}

static void run_graph(execution &run, const descriptor *graph)
{
    for (size_t i = 0; i < operation_count(graph); i++) {
        const descriptor *operation = value_of<const descriptor *>(graph, 801, i);
        assert(operation->finished);
        if (operation->kind == MATMUL)
            matmul(run, operation);
        else if (operation->kind == POINTWISE)
            pointwise(run, operation);
        else if (operation->kind == REDUCTION)
            reduce(run, operation);
        else if (operation->kind == RESHAPE)
            reshape(run, operation);
        spoil(run, operation);
    }
}

/* The caller's memory is the host's, and his own again when the call returns. */
static void keep_numbers(execution &run)
{
    for (size_t i = 0; i < operation_count(run.graph); i++)
        for (int attribute : {751, 752, 753, 758, 1520, 1521, 1522, 1610, 1611, 2200, 2201}) {
            const descriptor *operation = value_of<const descriptor *>(run.graph, 801, i);
            if (operation->attributes.count(attribute) == 0)
                continue;
            const descriptor *t = value_of<const descriptor *>(operation, attribute);
            int64_t name = value_of<int64_t>(t, 906);
            if (!value_of<bool>(t, 908) || run.numbers.count(name) != 0)
                continue;
            memcpy(&run.numbers[name], run.pointers.at(name), sizeof(float));
            run.pointers[name] = &run.numbers[name];
        }
}

static void execute(void *context)
{
    execution *run = (execution *)context;

    runs++;
    device.reach(true);
    run_graph(*run, run->graph);
    device.reach(false);
}

static void drop_execution(void *context)
{
    delete (execution *)context;
}

/* Two bytes a score of the first product for a backward, as on Hopper; forward needs none. */
static int64_t workspace_of(const descriptor *graph)
{
    int64_t bytes = 2;
    bool backward = false;

    for (size_t i = 0; i < operation_count(graph); i++)
        backward = backward || value_of<const descriptor *>(graph, 801, i)->kind == RESHAPE;
    for (size_t i = 0; i < operation_count(graph); i++) {
        const descriptor *operation = value_of<const descriptor *>(graph, 801, i);
        if (operation->kind != MATMUL)
            continue;
        const descriptor *scores = value_of<const descriptor *>(operation, 1522);
        for (size_t axis = 0; axis < 4; axis++)
            bytes *= value_of<int64_t>(scores, 902, axis);
        return !backward ? 0 : manner == FAKE_CUDNN_GREEDY ? bytes * GREED : bytes;
    }
    return 0;
}

/* ---- the interface ---- */

extern "C" size_t cudnnGetVersion(void)
{
    return 91900;
}

extern "C" const char *cudnnGetErrorString(int status)
{
    static const std::map<int, const char *> texts = {
        {GOOD, "GOOD"},           {BAD, "BAD"},
        {REFUSED, "REFUSED"},     {NO_COMPILE, "NO_COMPILE"},
        {NO_MEMORY, "NO_MEMORY"}, {NO_DRIVER, "NO_DRIVER"}};
    return texts.at(status);
}

extern "C" int cudnnCreate(void **ret_handle)
{
    if (manner == FAKE_CUDNN_NO_DEVICE)
        return REFUSED;
    *ret_handle = new handle{nullptr};
    return GOOD;
}

extern "C" int cudnnDestroy(void *handle_)
{
    delete (handle *)handle_;
    return GOOD;
}

extern "C" int cudnnSetStream(void *handle_, void *stream)
{
    if (handle_ == nullptr || stream == nullptr)
        return BAD;
    ((handle *)handle_)->stream = stream;
    return GOOD;
}

extern "C" int cudnnBackendCreateDescriptor(int kind, void **ret_descriptor)
{
    *ret_descriptor = new descriptor{kind, false, {}, -1, nullptr};
    return GOOD;
}

extern "C" int cudnnBackendDestroyDescriptor(void *d)
{
    delete (descriptor *)d;
    return GOOD;
}

static int plan_status(void)
{
    return manner == FAKE_CUDNN_NO_COMPILE  ? NO_COMPILE
           : manner == FAKE_CUDNN_NO_MEMORY ? NO_MEMORY
           : manner == FAKE_CUDNN_NO_DRIVER ? NO_DRIVER
                                            : GOOD;
}

extern "C" int cudnnBackendFinalize(void *descriptor_)
{
    descriptor *d = (descriptor *)descriptor_;

    if (d->finished || (d->kind == GRAPH && manner == FAKE_CUDNN_REFUSES))
        return d->finished ? BAD : REFUSED;
    if (d->kind == PLAN && plan_status() != GOOD)
        return plan_status();
    if (d->kind == PLAN) {
        const descriptor *configuration = value_of<const descriptor *>(d, 401);
        d->graph = configuration->graph;
        d->number = configuration->number;
    }
    d->finished = true;
    return GOOD;
}

extern "C" int cudnnBackendSetAttribute(void *descriptor_, int attribute, int type, int64_t count,
                                        const void *values)
{
    static const std::map<int, size_t> sizes = {{0, 8}, {1, 4},  {2, 1},  {3, 8}, {6, 8},
                                                {8, 4}, {14, 4}, {15, 8}, {18, 4}};
    descriptor *d = (descriptor *)descriptor_;
    auto size = sizes.find(type);

    if (d->finished || size == sizes.end())
        return BAD;
    d->attributes[attribute].assign((const char *)values,
                                    (const char *)values + (size_t)count * size->second);
    return GOOD;
}

static int propose(const descriptor *heuristic, int64_t room, int64_t *ret_count,
                   descriptor **configurations)
{
    *ret_count = value_of<int>(heuristic, 200) == 3 ? std::min<int64_t>(room, 2) : 0;
    for (int64_t i = 0; i < *ret_count; i++) {
        configurations[i]->graph = value_of<descriptor *>(heuristic, 201);
        configurations[i]->number = i;
        configurations[i]->finished = true;
    }
    return GOOD;
}

extern "C" int cudnnBackendGetAttribute(void *descriptor_, int attribute, int, int64_t room,
                                        int64_t *ret_count, void *ret_values)
{
    const descriptor *d = (const descriptor *)descriptor_;
    bool unordered;
    int64_t workspace;

    *ret_count = 1;
    switch (attribute) {
    case 202:
        return propose(d, room, ret_count, (descriptor **)ret_values);
    case 300:
        (*(descriptor **)ret_values)->number = d->number;
        return GOOD;
    case 1301:
        memcpy(ret_values, &d->number, sizeof(d->number));
        return GOOD;
    case 1303:
        unordered = d->number == 0 || manner == FAKE_CUDNN_UNORDERED;
        ((int *)ret_values)[0] = 0;
        ((int *)ret_values)[1] = 4;
        *ret_count = unordered ? 2 : 1;
        return GOOD;
    case 402:
        workspace = workspace_of(d->graph);
        memcpy(ret_values, &workspace, sizeof(workspace));
        return GOOD;
    default:
        return BAD;
    }
}

extern "C" int cudnnBackendExecute(void *handle_, void *plan, void *pack)
{
    const descriptor *p = (const descriptor *)plan, *memory = (const descriptor *)pack;

    if (handle_ == nullptr || !p->finished || !memory->finished)
        return BAD;
    if (workspace_of(p->graph) > 0 && value_of<void *>(memory, 1003) == nullptr)
        return BAD;
    execution *run = new execution{p->graph, {}, {}, {}};
    for (size_t i = 0; i < memory->attributes.at(1000).size() / sizeof(int64_t); i++)
        run->pointers[value_of<int64_t>(memory, 1000, i)] = value_of<void *>(memory, 1001, i);
    keep_numbers(*run);
    device.take(((handle *)handle_)->stream, execute, run, drop_execution);
    return GOOD;
}
