/* The shapes that cuDNN computes, with a stand-in that computes its graphs: its results, its
 * selection, and that our own kernels take over at every failure of cuDNN. */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emulator/emulator.h"
#include "emulator/fake_cudnn.h"
#include "kernels/cuda/backend.h"
#include "parity/oracle/adapter.h"
#include "parity/oracle/tensor.h"

#define TEXT_SIZE 2048

/* One shape's attention by one device. */
struct result {
    size_t wide, narrow;
    struct tensor output, log_sum, d_qkv;
};

static const struct kernel_attention plain = {4, 16, 64, 4, 4}, grouped = {2, 20, 48, 6, 2};
/* 3 x 13 log-sums a sample: only every fourth sample's begin at a multiple of 16 bytes. */
static const struct kernel_attention odd = {12, 13, 48, 3, 3};

static void behave(enum fake_cudnn_manner manner)
{
    void *library = dlopen(FAKE_CUDNN, RTLD_NOW);
    fake_cudnn_behave_function ask;

    assert_non_null(library);
    *(void **)&ask = dlsym(library, "fake_cudnn_behave");
    ask(manner, (struct fake_cudnn_device){emulator_reach_memory, emulator_take_call});
}

static struct kernel_device *opened(const struct kernel *kernel, enum fake_cudnn_manner manner)
{
    struct kernel_device *device;
    struct error error = {0};

    behave(manner);
    if (kernel->open(&(struct kernel_options){.index = 0}, &device, &error) < 0)
        fail_msg("%s", error.text);
    return device;
}

static unsigned runs(void)
{
    fake_cudnn_runs_function count;
    *(void **)&count = dlsym(dlopen(FAKE_CUDNN, RTLD_NOW), "fake_cudnn_runs");
    return count();
}

static struct result computed(const struct kernel *kernel, struct kernel_device *device,
                              struct kernel_attention shape)
{
    const struct kernel *table = adapter_around(kernel, device);
    size_t rows = shape.batch * shape.context, depth = shape.width / shape.heads;
    size_t wide = rows * (shape.width + 2 * shape.kv_heads * depth);
    struct tensor qkv = tensor_random(wide, 1, 1),
                  d_output = tensor_random(rows * shape.width, 2, 1);
    struct result r = {wide, rows * shape.width, tensor_poison(rows * shape.width),
                       tensor_poison(rows * shape.heads), tensor_poison(wide)};

    table->attention_forward(device, r.output.f32, r.log_sum.f32, qkv.f32, shape);
    table->attention_backward(device, r.d_qkv.f32, d_output.f32, r.output.f32, r.log_sum.f32,
                              qkv.f32, shape);
    tensor_free(&qkv);
    tensor_free(&d_output);
    return r;
}

static void result_free(struct result *r)
{
    tensor_free(&r->output);
    tensor_free(&r->log_sum);
    tensor_free(&r->d_qkv);
}

static double apart(const struct tensor *a, const struct tensor *b)
{
    double difference = 0, length = 0;

    for (size_t i = 0; i < a->count; i++) {
        difference += pow((double)a->f32[i] - (double)b->f32[i], 2);
        length += pow((double)a->f32[i], 2);
    }
    return sqrt(difference / length);
}

static bool same_bits(const struct tensor *a, const struct tensor *b)
{
    return memcmp(a->f32, b->f32, a->count * sizeof(float)) == 0;
}

static const char *described(const struct kernel *kernel, struct kernel_device *device)
{
    static char text[TEXT_SIZE];
    kernel->describe(device, text, sizeof(text));
    return text;
}

/* cuDNN gives the result of our own kernels up to rounding, backward in @backward_runs runs;
 * chosen once. */
static void check_taken(enum fake_cudnn_manner manner, struct kernel_attention shape,
                        unsigned backward_runs, const char *words)
{
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct kernel_device *device = opened(kernel, manner);
    struct result own = computed(kernel, device, shape);
    unsigned before = runs();

    assert_int_equal(kernel->attention_prepare(device, shape), 0);
    assert_true(runs() > before); /* the trial */
    before = runs();
    assert_int_equal(kernel->attention_prepare(device, shape), 0);
    assert_int_equal(runs(), before);
    struct result taken = computed(kernel, device, shape);
    assert_int_equal(runs(), before + 1 + backward_runs);
    assert_true(apart(&own.output, &taken.output) < 0.01);
    assert_true(apart(&own.log_sum, &taken.log_sum) < 1e-5);
    assert_true(apart(&own.d_qkv, &taken.d_qkv) < 0.01);
    if (!strstr(described(kernel, device), words))
        fail_msg("not described with \"%s\": %s", words, described(kernel, device));
    result_free(&own);
    result_free(&taken);
    kernel->close(device);
}

static void test_cudnn_is_taken(void **state)
{
    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    check_taken(FAKE_CUDNN_SOUND, plain, 1,
                "attention 4x16, 4 heads of 16, 4 of keys: forward cuDNN 91900 engine 1, 4 samples "
                "a run, 0 MiB, backward cuDNN 91900 engine 1, 4 samples a run, 0 MiB\n");
    check_taken(FAKE_CUDNN_SOUND, grouped, 1, "backward cuDNN 91900 engine 1, 2 samples a run");
}

/* A workspace that is too large for the whole micro-batch: several runs. */
static void test_a_part_at_a_time(void **state)
{
    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    check_taken(FAKE_CUDNN_GREEDY, plain, 2, "backward cuDNN 91900 engine 1, 2 samples a run");
}

/* Parts begin where the graph declares it, which the stand-in asserts: six samples would fit. */
static void test_parts_of_odd_sizes(void **state)
{
    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    check_taken(FAKE_CUDNN_GREEDY, odd, 3, "backward cuDNN 91900 engine 1, 4 samples a run");
}

/* Our own kernels, with their bits, and the reason. */
static void check_left(const struct kernel *kernel, enum fake_cudnn_manner manner,
                       const char *reason)
{
    struct kernel_device *device = opened(kernel, manner);
    struct result own = computed(kernel, device, plain);

    assert_int_equal(kernel->attention_prepare(device, plain), 0);
    struct result after = computed(kernel, device, plain);
    assert_true(same_bits(&own.output, &after.output));
    assert_true(same_bits(&own.log_sum, &after.log_sum));
    assert_true(same_bits(&own.d_qkv, &after.d_qkv));
    if (!strstr(described(kernel, device), reason))
        fail_msg("\"%s\" is not given as the reason: %s", reason, described(kernel, device));
    result_free(&own);
    result_free(&after);
    kernel->close(device);
}

static void test_own_kernels_take_over(void **state)
{
    (void)state;
    const struct kernel *bf16 = firn_cuda_backend()->bf16;

    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    check_left(bf16, FAKE_CUDNN_REFUSES, "backward own kernels (the graph is refused: REFUSED)");
    check_left(bf16, FAKE_CUDNN_UNORDERED, "own kernels (of 2 engines 2 are not deterministic");
    check_left(bf16, FAKE_CUDNN_NO_COMPILE, "1 are not deterministic, 1 do not build");
    check_left(bf16, FAKE_CUDNN_WRONG, "forward own kernels (on trial cuDNN was 0.2");
    check_left(bf16, FAKE_CUDNN_WRONG, "backward own kernels (on trial cuDNN was ");
    check_left(bf16, FAKE_CUDNN_OTHER_BITS, "(on trial cuDNN gave other bits in run 2 of 8)");
    /* a small trial, or a short trial, would not have shown these */
    check_left(bf16, FAKE_CUDNN_LARGE,
               "forward own kernels (on trial cuDNN gave other bits in run 2");
    check_left(bf16, FAKE_CUDNN_SELDOM,
               "forward own kernels (on trial cuDNN gave other bits in run ");
    check_left(bf16, FAKE_CUDNN_SELDOM,
               "backward own kernels (on trial cuDNN gave other bits in run ");
    setenv("FIRN_CUDNN_LIBRARY", "/nowhere/libcudnn.so.9", 1);
    check_left(bf16, FAKE_CUDNN_SOUND, "own kernels (no cuDNN: /nowhere/libcudnn.so.9: ");
    setenv("FIRN_CUDNN_LIBRARY", "", 1);
    check_left(bf16, FAKE_CUDNN_SOUND, "own kernels (cuDNN is switched off)");
}

/* A failure of this machine alone is no reason to choose other kernels: other machines of its kind
 * would compute differently. */
static void test_a_failure_of_this_machine_is_an_error(void **state)
{
    static const struct {
        enum fake_cudnn_manner manner;
        int status;
        const char *words; /* of the device's failure; NULL: it has none */
    } cases[] = {
        {FAKE_CUDNN_NO_MEMORY, -ENOMEM, NULL},
        {FAKE_CUDNN_NO_DRIVER, -EIO, "building an engine failed on this machine: NO_DRIVER"},
    };
    const struct kernel *bf16 = firn_cuda_backend()->bf16;

    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kernel_device *device = opened(bf16, cases[i].manner);
        struct error error = {0};
        assert_int_equal(bf16->attention_prepare(device, plain), cases[i].status);
        assert_null(strstr(described(bf16, device), "attention"));
        assert_int_equal(bf16->synchronize(device, &error), cases[i].words ? -EIO : 0);
        if (cases[i].words && !strstr(error.text, cases[i].words))
            fail_msg("\"%s\" is not in: %s", cases[i].words, error.text);
        bf16->close(device);
    }
}

/* A shape without a place would be computed by our own kernels, and on another worker by cuDNN. */
static void test_more_shapes_than_there_are_places(void **state)
{
    const struct kernel *bf16 = firn_cuda_backend()->bf16;
    struct kernel_attention shape = plain;
    struct error error = {0};

    (void)state;
    setenv("FIRN_CUDNN_LIBRARY", "", 1);
    struct kernel_device *device = opened(bf16, FAKE_CUDNN_SOUND);
    for (shape.batch = 1; shape.batch <= 16; shape.batch++)
        assert_int_equal(bf16->attention_prepare(device, shape), 0);
    assert_int_equal(bf16->attention_prepare(device, shape), -ENOSPC);
    assert_int_equal(bf16->synchronize(device, &error), -EIO);
    assert_non_null(strstr(error.text, "16 shapes of attention at most"));
    bf16->close(device);
}

/* Others of its kind have cuDNN, and by its version this GPU was compared with them. */
static void test_a_cudnn_that_does_not_take_the_device(void **state)
{
    (void)state;
    const struct kernel *bf16 = firn_cuda_backend()->bf16, *f32 = firn_cuda_backend()->f32;
    const struct kernel_options options = {.index = 0};
    struct kernel_device *device = NULL;
    struct error error = {0};

    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    behave(FAKE_CUDNN_NO_DEVICE);
    assert_int_equal(bf16->open(&options, &device, &error), -EIO);
    assert_non_null(strstr(error.text, "cuDNN 91900 does not take the device: REFUSED"));
    assert_null(device);
    f32->close(opened(f32, FAKE_CUDNN_NO_DEVICE)); /* which has no use for it */
}

/* The identity that slots are compared by has the versions: others may give other bits. */
static void test_identity(void **state)
{
    (void)state;
    struct error error;
    char with[256], without[256];

    setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1);
    assert_int_equal(firn_cuda_backend()->identity(with, sizeof(with), &error), 0);
    setenv("FIRN_CUDNN_LIBRARY", "", 1);
    assert_int_equal(firn_cuda_backend()->identity(without, sizeof(without), &error), 0);
    assert_non_null(strstr(with, ", cuDNN 91900, NVRTC "));
    assert_null(strstr(without, "cuDNN"));
    assert_null(strstr(without, "NVRTC"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cudnn_is_taken),
        cmocka_unit_test(test_a_part_at_a_time),
        cmocka_unit_test(test_parts_of_odd_sizes),
        cmocka_unit_test(test_own_kernels_take_over),
        cmocka_unit_test(test_a_failure_of_this_machine_is_an_error),
        cmocka_unit_test(test_more_shapes_than_there_are_places),
        cmocka_unit_test(test_a_cudnn_that_does_not_take_the_device),
        cmocka_unit_test(test_identity),
    };
    if (EMULATOR_JUMPS_ARE_SLOW)
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
