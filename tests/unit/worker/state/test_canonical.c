/* Tests of the order of a checkpoint's tensors: the same for every rank and every range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worker/tiny_state.h"

#include "worker/state/canonical.h"

#define TENSORS_MAX 256

struct list {
    struct canonical_tensor tensors[TENSORS_MAX];
    unsigned count;
};

static int collect(void *context, const struct canonical_tensor *tensor)
{
    struct list *list = context;

    assert_true(list->count < TENSORS_MAX);
    list->tensors[list->count++] = *tensor;
    return 0;
}

static void visit(const struct state *state, unsigned first, unsigned count, struct list *ret_list)
{
    memset(ret_list, 0, sizeof(*ret_list));
    assert_int_equal(canonical_visit(state, first, count, collect, ret_list), 0);
}

static void check_whole(const struct state *state, const struct list *all)
{
    assert_int_equal(canonical_count(state), all->count);
    for (unsigned i = 0; i < all->count; i++)
        assert_int_equal(all->tensors[i].order, i);
    for (unsigned i = 1; i < all->count; i++) {
        const struct canonical_tensor *a = &all->tensors[i - 1], *b = &all->tensors[i];
        if (a->tensor == b->tensor)
            assert_int_equal(b->role, a->role + 1);
        else
            assert_true(a->unit < b->unit || a->tensor->offset < b->tensor->offset);
    }
}

/* Check that every cut into contiguous ranges gives the pieces of the one list. */
static void check_cuts(const struct state *state, const struct list *all)
{
    struct list part;

    for (unsigned first = 0; first < state->unit_count; first++)
        for (unsigned count = 1; first + count <= state->unit_count; count++) {
            visit(state, first, count, &part);
            for (unsigned i = 0; i < part.count; i++) {
                const struct canonical_tensor *whole = &all->tensors[part.tensors[i].order];
                assert_ptr_equal(part.tensors[i].tensor, whole->tensor);
                assert_int_equal(part.tensors[i].role, whole->role);
                assert_int_equal(part.tensors[i].unit, whole->unit);
                assert_true(whole->unit >= first && whole->unit < first + count);
            }
            unsigned inside = 0;
            for (unsigned i = 0; i < all->count; i++)
                inside += all->tensors[i].unit >= first && all->tensors[i].unit < first + count;
            assert_int_equal(part.count, inside);
        }
}

static void test_order(void **state)
{
    struct list all;

    (void)state;
    for (unsigned tied = 0; tied <= 1; tied++)
        for (unsigned frozen = 0; frozen <= 3; frozen++) {
            struct tiny_state tiny;
            tiny_state_init(&tiny, tied);
            tiny.state->freeze.frozen_layers = frozen;
            visit(tiny.state, 0, tiny.state->unit_count, &all);
            check_whole(tiny.state, &all);
            check_cuts(tiny.state, &all);
            tiny_state_done(&tiny);
        }
}

static unsigned roles_of(const struct list *list, const char *name)
{
    unsigned roles = 0;

    for (unsigned i = 0; i < list->count; i++)
        roles += !strcmp(list->tensors[i].tensor->name, name);
    return roles;
}

/*
 * A tied head has the embedding's table until the embedding freezes; then the table is a tensor of
 * its own. Frozen tensors have no moments.
 */
static void test_mirror_and_frozen(void **state)
{
    struct tiny_state tiny;
    struct list list;

    (void)state;
    tiny_state_init(&tiny, true);
    visit(tiny.state, 0, tiny.state->unit_count, &list);
    assert_int_equal(roles_of(&list, "transformer.wte.weight"), 3);
    assert_int_equal(roles_of(&list, "lm_head.weight"), 0);
    assert_int_equal(roles_of(&list, "transformer.h.0.mlp.c_fc.weight"), 3);

    tiny.state->freeze.frozen_layers = 1;
    visit(tiny.state, 0, tiny.state->unit_count, &list);
    assert_int_equal(roles_of(&list, "transformer.wte.weight"), 1);
    assert_int_equal(roles_of(&list, "lm_head.weight"), 3);
    assert_int_equal(roles_of(&list, "transformer.h.0.mlp.c_fc.weight"), 1);
    assert_int_equal(roles_of(&list, "transformer.h.1.mlp.c_fc.weight"), 3);
    tiny_state_done(&tiny);
}

static void test_memory(void **state)
{
    struct tiny_state tiny;
    struct error error = {0};
    struct list list;

    (void)state;
    tiny_state_init(&tiny, true);
    tiny.state->freeze.frozen_layers = 1;
    assert_int_equal(state_take_unit(tiny.state, 2, &error), 0); /* frozen */
    assert_int_equal(state_take_unit(tiny.state, 3, &error), 0); /* trained */
    visit(tiny.state, 2, 3, &list);
    for (unsigned i = 0; i < list.count; i++) {
        const struct canonical_tensor *tensor = &list.tensors[i];
        const struct state_unit *unit = &tiny.state->units[tensor->unit];
        float *const arrays[] = {unit->parameters, unit->first_moment, unit->second_moment};
        float *memory = canonical_memory(tiny.state, tensor);
        if (tensor->unit == 4) /* not held */
            assert_null(memory);
        else
            assert_ptr_equal(memory, arrays[tensor->role] + tensor->tensor->offset);
    }
    tiny_state_done(&tiny);
}

static int stop_at_five(void *context, const struct canonical_tensor *tensor)
{
    ++*(unsigned *)context;
    return tensor->order == 5 ? -7 : 0;
}

static void test_a_visitor_may_stop(void **state)
{
    struct tiny_state tiny;
    unsigned seen = 0;

    (void)state;
    tiny_state_init(&tiny, true);
    assert_int_equal(canonical_visit(tiny.state, 0, tiny.state->unit_count, stop_at_five, &seen),
                     -7);
    assert_int_equal(seen, 6);
    tiny_state_done(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_mirror_and_frozen),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_a_visitor_may_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
