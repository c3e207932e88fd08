/* Tests that losses come from the ring in order and with their bits, and that none is waited for
 * before it is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/step/loss_ring.h"

#define BATCH   2
#define CONTEXT 8
#define ROWS    ((size_t)BATCH * CONTEXT)
#define UNITS   4

struct fixture {
    struct kernel kernel;
    struct kernel_device *device;
    struct pinned *pool;
    struct stage *stage;
    void *weights[UNITS];
    int32_t tokens[LOSSES_AHEAD][ROWS];
    struct loss_ring *ring;
};

static unsigned waits;
static bool fails; /* the device: nothing arrives any more */

static void count_wait(struct kernel_device *device, struct kernel_event *event)
{
    waits++;
    kernel_cpu()->event_wait(device, event);
}

static void download(struct kernel_device *device, void *to_host, const void *from_device,
                     size_t size_bytes)
{
    if (!fails)
        kernel_cpu()->download(device, to_host, from_device, size_bytes);
}

static const struct model_spec spec = {
    .family = MODEL_GPT2, .layers = 1, .width = 16, .heads = 2, .context = CONTEXT, .vocab = 32};

static void open_stage(struct fixture *f)
{
    const struct stage_options options = {.kernel = &f->kernel,
                                          .device = f->device,
                                          .spec = &spec,
                                          .unit_count = UNITS,
                                          .batch = BATCH,
                                          .slots = LOSSES_AHEAD};
    struct error error = {0};

    assert_int_equal(stage_new(&options, &f->stage, &error), 0);
    for (unsigned unit = 0; unit < UNITS; unit++) {
        struct unit_layout layout;
        model_unit_layout(&spec, unit, &layout);
        assert_int_equal(
            f->kernel.allocate(f->device, layout.count * sizeof(float), &f->weights[unit]), 0);
        model_unit_initialize(&spec, unit, 1, 1, f->weights[unit]);
    }
    for (unsigned slot = 0; slot < LOSSES_AHEAD; slot++)
        for (size_t i = 0; i < ROWS; i++)
            f->tokens[slot][i] = (int32_t)((i * 7 + slot * 5) % spec.vocab);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct error error = {0};

    assert_non_null(f);
    f->kernel = *kernel_cpu();
    f->kernel.event_wait = count_wait;
    f->kernel.download = download;
    assert_int_equal(
        f->kernel.open(&(struct kernel_options){.thread_count = 1}, &f->device, &error), 0);
    assert_int_equal(pinned_new(&f->kernel, f->device, &f->pool), 0);
    open_stage(f);
    assert_int_equal(loss_ring_new(f->pool, ROWS, &f->ring), 0);
    fails = false;
    waits = 0;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    loss_ring_free(f->ring);
    stage_free(f->stage);
    for (unsigned unit = 0; unit < UNITS; unit++)
        f->kernel.release(f->device, f->weights[unit]);
    pinned_free(f->pool);
    f->kernel.close(f->device);
    free(f);
    return 0;
}

static void forward(struct fixture *f, unsigned slot)
{
    stage_forward(f->stage, slot, f->weights, f->tokens[slot], f->tokens[slot], true, 1.0f);
}

static void test_losses_come_in_order_with_their_bits(void **state)
{
    struct fixture *f = *state;
    double want[LOSSES_AHEAD];

    for (unsigned slot = 0; slot < LOSSES_AHEAD; slot++) {
        forward(f, slot);
        want[slot] = stage_loss_sum(f->stage, slot);
    }
    assert_true(want[0] != want[1]);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned slot = 0; slot < LOSSES_AHEAD; slot++) {
            assert_false(loss_ring_is_full(f->ring));
            loss_ring_put(f->ring, f->stage,
                          (struct loss_entry){.lane = round, .index_in_lane = slot, .slot = slot});
        }
        assert_true(loss_ring_is_full(f->ring));
        for (unsigned slot = 0; slot < LOSSES_AHEAD; slot++) {
            const struct loss_entry *entry = loss_ring_oldest(f->ring);
            assert_int_equal(entry->lane, round);
            assert_int_equal(entry->index_in_lane, slot);
            double loss = loss_ring_take(f->ring);
            assert_memory_equal(&loss, &want[slot], sizeof(loss));
        }
        assert_null(loss_ring_oldest(f->ring));
    }
}

static void test_a_loss_is_waited_for_when_it_is_taken(void **state)
{
    struct fixture *f = *state;

    for (unsigned slot = 0; slot < LOSSES_AHEAD; slot++) {
        forward(f, slot);
        loss_ring_put(f->ring, f->stage, (struct loss_entry){.slot = slot});
    }
    assert_int_equal(waits, 0);
    (void)loss_ring_take(f->ring);
    assert_int_equal(waits, 1);
    loss_ring_free(f->ring); /* its memory is in use until then */
    f->ring = NULL;
    assert_int_equal(waits, LOSSES_AHEAD);
}

static void test_a_device_that_has_failed_gives_nan(void **state)
{
    struct fixture *f = *state;

    forward(f, 0);
    fails = true;
    loss_ring_put(f->ring, f->stage, (struct loss_entry){.slot = 0});
    assert_true(isnan(loss_ring_take(f->ring)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_losses_come_in_order_with_their_bits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_loss_is_waited_for_when_it_is_taken, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_device_that_has_failed_gives_nan, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
