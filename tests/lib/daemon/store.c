#include "lib/daemon/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static int fake_txn(void *context, const struct kv_compare *compares, size_t compare_count,
                    const struct kv_operation *operations, size_t operation_count, kv_callback done,
                    void *user, struct kv_request **ret_request)
{
    struct fake_store *store = context;

    if (store->refuse) {
        int refuse = store->refuse;
        store->refuse = 0;
        return refuse;
    }
    assert_false(store->in_flight);
    assert_int_equal(compare_count, 1);
    assert_string_equal(compares[0].key, operations[0].key);
    assert_int_equal(compares[0].target, KV_MOD_REVISION);
    assert_int_equal(operation_count, 1);
    assert_int_equal(operations[0].type, KV_PUT);
    assert_int_equal(operations[0].lease, 0);
    snprintf(store->key, sizeof(store->key), "%s", operations[0].key);
    snprintf(store->value, sizeof(store->value), "%s", operations[0].value);
    store->guard = compares[0].value;
    store->done = done;
    store->user = user;
    store->in_flight = true;
    store->started++;
    *ret_request = &store->request;
    return 0;
}

static int fake_range(void *context, const char *key, bool prefix, kv_callback done, void *user,
                      struct kv_request **ret_request)
{
    struct fake_store *store = context;

    assert_false(store->in_flight || prefix);
    snprintf(store->key, sizeof(store->key), "%s", key);
    store->value[0] = '\0';
    store->done = done;
    store->user = user;
    store->in_flight = true;
    *ret_request = &store->request;
    return 0;
}

static void fake_cancel(void *context, struct kv_request *request)
{
    struct fake_store *store = context;

    if (!request)
        return;
    assert_ptr_equal(request, &store->request);
    assert_true(store->in_flight);
    store->in_flight = false;
    store->cancelled++;
}

static int fake_timer_add(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                          struct loop_timer **ret_timer)
{
    struct fake_store *store = context;

    store->timer = (struct loop_timer){fired, user, at_ns};
    *ret_timer = &store->timer;
    return 0;
}

static int fake_timer_set(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    (void)context;
    timer->at_ns = at_ns;
    return 0;
}

static void fake_timer_remove(void *context, struct loop_timer *timer)
{
    (void)context;
    timer->fired = NULL;
}

static uint64_t fake_now(void *context)
{
    return ((struct fake_store *)context)->now_ns;
}

void fake_store_init(struct fake_store *store)
{
    memset(store, 0, sizeof(*store));
    store->kv =
        (struct kv){.context = store, .range = fake_range, .txn = fake_txn, .cancel = fake_cancel};
    store->loop = (struct loop){
        .context = store,
        .timer_add = fake_timer_add,
        .timer_set = fake_timer_set,
        .timer_remove = fake_timer_remove,
        .now_ns = fake_now,
    };
}

void fake_store_answer(struct fake_store *store, int status)
{
    const struct kv_result result = {
        .status = status, .succeeded = status == 0, .revision = ++store->revision};

    assert_true(store->in_flight);
    store->in_flight = false;
    store->done(store->user, &result);
}

void fake_store_answer_changed(struct fake_store *store)
{
    const struct kv_result result = {.revision = ++store->revision};

    assert_true(store->in_flight);
    store->in_flight = false;
    store->done(store->user, &result);
}

void fake_store_answer_read(struct fake_store *store, int64_t revision)
{
    const struct kv_entry entry = {.key = store->key, .value = "", .mod_revision = revision};
    const struct kv_result result = {.entries = &entry, .entry_count = revision ? 1 : 0};

    assert_true(store->in_flight);
    assert_string_equal(store->value, "");
    store->in_flight = false;
    store->done(store->user, &result);
}

void fake_store_wait(struct fake_store *store)
{
    assert_true(store->timer.at_ns != UINT64_MAX && store->timer.fired);
    store->now_ns = store->timer.at_ns;
    store->timer.at_ns = UINT64_MAX;
    store->timer.fired(store->timer.user);
}
