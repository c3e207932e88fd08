/*
 * Tests of training from the parameters in a folder: equal to the written ones, tied or not, under
 * either spelling of GPT-2's names; no memory is held if the folder has another model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/state/pretrained.h"

#include "base/json.h"
#include "elastic/job/huggingface.h"
#include "lib/checkpoint/foreign_folder.h"
#include "lib/worker/tiny_state.h"

#define TENSORS_MAX 64

static struct tiny_state tiny;
static float *expected[16]; /* by unit */

static int set_up(void **state)
{
    (void)state;
    tiny_state_init(&tiny, true);
    tiny.spec.model.norm_epsilon = 1e-5;
    strcpy(tiny.spec.model.from, "/tmp/firn-pretrained-XXXXXX");
    assert_non_null(mkdtemp(tiny.spec.model.from));
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"model.safetensors", "config.json"};
    char path[2048];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", tiny.spec.model.from, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(tiny.spec.model.from), 0);
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        free(expected[i]);
        expected[i] = NULL;
    }
    tiny_state_done(&tiny);
    return 0;
}

/* Write the folder of a model of another seed, without the head's table if it is tied. */
static void write_folder(size_t name_skip)
{
    struct state *state = tiny.state;
    struct foreign_tensor tensors[TENSORS_MAX];
    size_t count = 0;
    AUTO_JSON json_t *config = huggingface_config(&tiny.spec.model, tiny.spec.model.tied);
    AUTO_FREE char *text = json_text(config);

    foreign_text(tiny.spec.model.from, "config.json", text);
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        const struct unit_layout *layout = &state->units[unit].layout;
        expected[unit] = calloc(layout->count, sizeof(float));
        model_unit_initialize(&state->model, unit, 99, 1, expected[unit]);
        for (unsigned i = 0; i < layout->tensor_count; i++) {
            const struct unit_tensor *tensor = &layout->tensors[i];
            if (tensor->mirror)
                continue;
            tensors[count++] = (struct foreign_tensor){
                .name = tensor->name + (tensor->name[0] == 't' ? name_skip : 0),
                .dtype = SAFETENSORS_F32,
                .rank = tensor->rank,
                .shape = {tensor->shape[0], tensor->shape[1]},
                .data = expected[unit] + tensor->offset};
        }
    }
    foreign_file(tiny.spec.model.from, "model.safetensors", tensors, count);
}

static void expect_units(void)
{
    struct state *state = tiny.state;
    struct error error = {0};

    if (pretrained_units(state, 0, state->unit_count, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(state->applied_step, 0);
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        assert_true(state->units[unit].held);
        assert_memory_equal(state->units[unit].parameters, expected[unit],
                            state->units[unit].layout.count * sizeof(float));
    }
}

static void test_tied(void **state)
{
    (void)state;
    write_folder(0);
    expect_units();
}

static void test_published_names(void **state)
{
    (void)state;
    write_folder(strlen("transformer."));
    expect_units();
}

static void test_another_model_is_refused(void **state)
{
    (void)state;
    struct error error = {0};
    write_folder(0);
    tiny.spec.model.layers = 4;
    assert_int_equal(pretrained_units(tiny.state, 0, 2, &error), -EINVAL);
    assert_non_null(strstr(error.text, tiny.spec.model.from));
    assert_non_null(strstr(error.text, "model.layers: 4 here, 3 in config.json"));
    assert_false(tiny.state->units[0].held);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tied),
        TEST(test_published_names),
        TEST(test_another_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
