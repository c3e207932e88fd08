/*
 * Random damage to valid plans: decoding ends in an error or in a plan that passes its own check
 * and the queries of workers. The seed is fixed, so a failure is reproducible; FIRN_FUZZ_SEED sets
 * another one.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <string.h>

#include "base/json.h"
#include "base/philox.h"
#include "lib/elastic/sample_plan.h"

#define ROUNDS 20000

struct dice {
    struct philox_key key;
    uint64_t throws;
};

static unsigned throw_dice(struct dice *dice, unsigned sides)
{
    uint32_t words[4];
    philox_block(dice->key, dice->throws++, 0, words);
    return words[0] % sides;
}

static struct dice new_dice(void)
{
    const char *seed = getenv("FIRN_FUZZ_SEED");
    return (struct dice){.key = philox_key_make(seed ? strtoull(seed, NULL, 10) : 1, 0)};
}

static json_t *random_value(struct dice *dice)
{
    static const json_int_t integers[] = {
        0,   1,   2,    3,    5,    6,         7,          8,         -1,       255,
        514, 515, 1024, 1025, 4096, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MIN};
    switch (throw_dice(dice, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_true();
    case 2:
        return json_real(-0.5);
    case 3:
        return json_string(throw_dice(dice, 2) ? "" : "7ff0000000000000");
    case 4:
        return json_array();
    case 5:
        return json_object();
    default:
        return json_integer(integers[throw_dice(dice, ARRAY_COUNT(integers))]);
    }
}

/* Choose a random container in the tree: mostly deeper, sometimes here. */
static json_t *random_container(struct dice *dice, json_t *tree)
{
    for (;;) {
        json_t *children[16];
        unsigned count = 0;
        const char *key;
        json_t *value;
        size_t index;
        if (json_is_object(tree)) {
            json_object_foreach(
                tree, key, value) if ((json_is_object(value) || json_is_array(value)) && count < 16)
                children[count++] = value;
        } else {
            json_array_foreach(tree, index,
                               value) if ((json_is_object(value) || json_is_array(value)) &&
                                          count < 16) children[count++] = value;
        }
        if (count == 0 || throw_dice(dice, 3) == 0)
            return tree;
        tree = children[throw_dice(dice, count)];
    }
}

static void mutate_array(struct dice *dice, json_t *array)
{
    size_t size = json_array_size(array);
    size_t at = throw_dice(dice, (unsigned)size + 1);
    switch (throw_dice(dice, 3)) {
    case 0:
        (void)json_array_insert_new(array, at, random_value(dice));
        break;
    case 1:
        (void)json_array_remove(array, at);
        break;
    default:
        if (at < size)
            (void)json_array_set_new(array, at, random_value(dice));
    }
}

static void mutate_object(struct dice *dice, json_t *object)
{
    unsigned skip = throw_dice(dice, (unsigned)json_object_size(object) + 1);
    void *at = json_object_iter(object);
    while (skip-- > 0 && at)
        at = json_object_iter_next(object, at);
    if (!at)
        return;
    if (throw_dice(dice, 4) == 0)
        (void)json_object_del(object, json_object_iter_key(at));
    else
        (void)json_object_iter_set_new(object, at, random_value(dice));
}

static void use(const struct plan *plan)
{
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    unsigned *peers = calloc(total + 1, sizeof(*peers));
    struct error error;
    assert_int_equal(plan_check(plan, &error), 0);
    for (unsigned rank = 0; rank < total; rank++)
        assert_true(plan_peers(plan, rank, true, peers) < total);
    AUTO_JSON json_t *tree = plan_encode(plan);
    assert_non_null(tree);
    free(peers);
}

static void try_decode(const json_t *tree, unsigned *accepted)
{
    struct plan *plan = NULL;
    struct error error = {0};
    int status = plan_decode(tree, &plan, &error);
    if (status == 0) {
        use(plan);
        plan_free(plan);
        ++*accepted;
    } else {
        assert_int_equal(status, -EINVAL);
        assert_true(error.text[0] != '\0');
    }
}

static void test_damaged_trees(void **state)
{
    (void)state;
    struct dice dice = new_dice();
    struct plan *plan = sample_plan();
    AUTO_JSON json_t *whole = plan_encode(plan);
    unsigned accepted = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        AUTO_JSON json_t *tree = json_deep_copy(whole);
        for (unsigned i = throw_dice(&dice, 3); i < 3; i++) {
            json_t *container = random_container(&dice, tree);
            if (json_is_array(container))
                mutate_array(&dice, container);
            else
                mutate_object(&dice, container);
        }
        try_decode(tree, &accepted);
    }
    assert_in_range(accepted, 1, ROUNDS / 2); /* both outcomes occurred */
    plan_free(plan);
}

static void test_damaged_texts(void **state)
{
    (void)state;
    struct dice dice = new_dice();
    struct plan *plan = sample_plan();
    AUTO_JSON json_t *whole = plan_encode(plan);
    AUTO_FREE char *text = json_text(whole);
    size_t length = strlen(text);
    unsigned accepted = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        AUTO_FREE char *copy = strdup(text);
        AUTO_JSON json_t *tree = NULL;
        for (unsigned i = throw_dice(&dice, 4); i < 4; i++)
            copy[throw_dice(&dice, (unsigned)length)] =
                "0123456789-{}[],\":atx"[throw_dice(&dice, 21)];
        if (json_parse(copy, length, "plan", &tree, NULL) == 0)
            try_decode(tree, &accepted);
    }
    assert_in_range(accepted, 1, ROUNDS);
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_trees),
        cmocka_unit_test(test_damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
