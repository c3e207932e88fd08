/* firnctl waits for an etcd that accepts connections and never answers, but only until its
 * deadline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/cluster/cluster_client.h"
#include "lib/membership/listener.h"

#define TIMEOUT_NS (300 * NS_PER_MS)
#define LATE_NS    (6 * NS_PER_SECOND) /* etcd's own times are longer */

struct mute {
    int listener;
    struct cluster_client client;
    uint64_t begun_ns;
};

static void begin(struct mute *mute)
{
    char endpoint[64];
    unsigned port;
    struct error error = {0};
    mute->listener = listener_open(&port);
    snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", port);
    assert_int_equal(cluster_client_open_at(endpoint, "c", TIMEOUT_NS, &mute->client, &error), 0);
    mute->client.quiet = true;
    mute->begun_ns = clock_monotonic_ns();
}

static void expect(struct mute *mute, int status, const struct error *error, const char *words)
{
    assert_int_equal(status, -ETIMEDOUT);
    assert_true(clock_monotonic_ns() - mute->begun_ns < LATE_NS);
    assert_non_null(strstr(error->text, words));
    cluster_client_close(&mute->client);
    close(mute->listener);
}

static void test_reading(void **state)
{
    (void)state;
    struct mute mute;
    struct error error = {0};
    begin(&mute);
    int status = cluster_client_range(&mute.client, "/x", false, NULL, NULL, &error);
    expect(&mute, status, &error, "no answer within 0 s.\nIs it running at http://127.0.0.1:");
}

static void test_writing(void **state)
{
    (void)state;
    struct mute mute;
    struct error error = {0};
    bool succeeded;
    const struct kv_operation put = {.type = KV_PUT, .key = "/x", .value = "1"};
    begin(&mute);
    int status = cluster_client_txn(&mute.client, NULL, 0, &put, 1, &succeeded, &error);
    expect(&mute, status, &error, "; the change may or may not have been made");
}

static int take_nothing(void *context, const struct kv_result *result, struct error *error)
{
    (void)result;
    (void)error;
    *(bool *)context = true;
    return 0;
}

/* The reason is optional: a caller without interest in it passes NULL. */
static void test_no_answer_is_none_of_no_keys(void **state)
{
    (void)state;
    struct mute mute;
    bool taken = false;
    begin(&mute);
    close(mute.listener); /* refused now */
    assert_true(cluster_client_range(&mute.client, "/x", false, take_nothing, &taken, NULL) < 0);
    assert_false(taken);
    cluster_client_close(&mute.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_writing),
        cmocka_unit_test(test_no_answer_is_none_of_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
