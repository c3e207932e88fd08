/* The recorder of a worker, with real files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "elastic/messages/trace_ring.h"
#include "lib/base/test_folder.h"
#include "worker/trace/recorder.h"

#define SLOT 3

static struct recorder *open_recorder(void)
{
    const struct recorder_options options = {.folder = test_folder_root, .slot = SLOT};
    struct recorder *recorder;
    struct error error = {0};

    assert_int_equal(recorder_open(&options, &recorder, &error), 0);
    return recorder;
}

/* Read the spans of the ring with that @age from its file. Return how many. */
static size_t read_ring(unsigned age, struct trace_facts *ret_facts, struct trace_span *spans,
                        unsigned count_max)
{
    CLEANUP(bytes_done) struct bytes ring = {0}, answer = {0};
    const struct trace_query query = {.to_step = UINT64_MAX, .count_max = count_max};
    char name[TRACE_RING_NAME_SIZE];
    struct error error = {0};

    trace_ring_name(SLOT, age, name);
    assert_int_equal(file_read(test_folder_at(name), TRACE_RING_BYTES, &ring, &error), 0);
    assert_int_equal(ring.size_bytes, TRACE_RING_BYTES);
    assert_int_equal(trace_head_decode(ring.data, ring.size_bytes, ret_facts, &error), 0);
    assert_int_equal(trace_ring_select(ring.data, ring.size_bytes, &query, &answer, &error), 0);
    size_t count = (answer.size_bytes - sizeof(struct trace_head)) / sizeof(*spans);
    memcpy(spans, answer.data + sizeof(struct trace_head), count * sizeof(*spans));
    return count;
}

static bool has_ring(unsigned age)
{
    char name[TRACE_RING_NAME_SIZE];

    trace_ring_name(SLOT, age, name);
    return !access(test_folder_at(name), F_OK);
}

static uint64_t long_ago(void)
{
    return clock_monotonic_ns() - NS_PER_SECOND;
}

static void test_spans_can_be_read_while_the_worker_goes_on(void **state)
{
    struct recorder *recorder = open_recorder();
    struct trace_facts facts;
    struct trace_span spans[4];
    uint64_t began_ns = long_ago();

    (void)state;
    recorder_enter(recorder, 5, 1, 2);
    recorder_add(
        recorder, began_ns,
        (struct trace_span){.kind = TRACE_FORWARD, .step = 8, .lane = 6, .micro_batch = 70000});
    recorder_add_kind(recorder, began_ns, TRACE_COMMIT, 8);
    recorder_applied(recorder, 8);
    assert_int_equal(read_ring(0, &facts, spans, 4), 2);
    assert_int_equal(facts.pid, getpid());
    assert_int_equal(facts.newest_step, 8);
    assert_int_equal(spans[0].begin_ns, began_ns);
    assert_in_range(spans[0].duration_ns, NS_PER_SECOND, 60 * NS_PER_SECOND);
    assert_int_equal(spans[0].generation, 5);
    assert_int_equal(spans[0].stage, 1);
    assert_int_equal(spans[0].replica, 2);
    assert_int_equal(spans[0].lane, 6);
    assert_int_equal(spans[0].micro_batch, 70000);
    assert_int_equal(spans[1].kind, TRACE_COMMIT);
    assert_int_equal(spans[1].lane, TRACE_NO_LANE);
    uint64_t said_ns = began_ns + (uint64_t)facts.unix_offset_ns, now_ns = clock_unix_ns();
    assert_in_range(now_ns - said_ns, NS_PER_SECOND / 2, 60 * NS_PER_SECOND);
    recorder_close(recorder);
}

static void test_the_ring_begins_again_at_its_end(void **state)
{
    static struct trace_span spans[TRACE_RING_SPANS];
    struct recorder *recorder = open_recorder();
    struct trace_facts facts;

    (void)state;
    for (uint64_t step = 1; step <= TRACE_RING_SPANS + 5; step++)
        recorder_add_kind(recorder, long_ago(), TRACE_STEP, step);
    assert_int_equal(read_ring(0, &facts, spans, TRACE_RING_SPANS), TRACE_RING_SPANS);
    assert_int_equal(spans[0].step, 6);
    assert_int_equal(spans[TRACE_RING_SPANS - 1].step, TRACE_RING_SPANS + 5);
    recorder_close(recorder);
}

static void test_a_span_below_a_microsecond_is_left_out(void **state)
{
    struct recorder *recorder = open_recorder();
    static struct trace_span spans[1000];
    struct trace_facts facts;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(spans); i++) /* a busy machine may take longer for some */
        recorder_add_kind(recorder, clock_monotonic_ns(), TRACE_SEND, 1);
    assert_in_range(read_ring(0, &facts, spans, ARRAY_COUNT(spans)), 0, ARRAY_COUNT(spans) / 2);
    recorder_close(recorder);
}

static void test_spans_survive_sigkill(void **state)
{
    struct trace_facts facts;
    struct trace_span span;
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        struct recorder *recorder = open_recorder();
        recorder_add_kind(recorder, long_ago(), TRACE_OPTIMIZER, 41);
        recorder_applied(recorder, 41);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(read_ring(0, &facts, &span, 1), 1);
    assert_int_equal(facts.pid, child);
    assert_int_equal(facts.newest_step, 41);
    assert_int_equal(span.step, 41);
}

/* A worker of that slot that applies @step; 0: none. */
static void live(uint64_t step)
{
    struct recorder *recorder = open_recorder();

    recorder_add_kind(recorder, long_ago(), TRACE_DEVICE, 0);
    if (step)
        recorder_applied(recorder, step);
    recorder_close(recorder);
}

static uint64_t newest_step(unsigned age)
{
    struct trace_facts facts;
    struct trace_span span;

    assert_int_equal(read_ring(age, &facts, &span, 1), 1);
    return facts.newest_step;
}

static void test_the_last_workers_of_a_slot_keep_their_rings(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= TRACE_RINGS_MAX + 2; step++)
        live(step);
    for (unsigned age = 0; age < TRACE_RINGS_MAX; age++)
        assert_int_equal(newest_step(age), TRACE_RINGS_MAX + 2 - age);
    assert_false(has_ring(TRACE_RINGS_MAX));
}

static void test_workers_that_do_no_step_push_nothing_out(void **state)
{
    (void)state;
    live(17);
    for (unsigned i = 0; i < 10; i++)
        live(0);
    assert_int_equal(newest_step(0), 0);
    assert_int_equal(newest_step(1), 17);
    assert_false(has_ring(2));
}

static void test_a_damaged_ring_is_replaced(void **state)
{
    (void)state;
    test_folder_write_text("trace-3.ring", "no ring");
    live(2);
    assert_int_equal(newest_step(0), 2);
    assert_false(has_ring(1));
}

/* As on a full disk, no file may be longer. The ring of the previous worker stays in place. */
static void test_a_ring_without_room_is_no_ring(void **state)
{
    const struct recorder_options options = {.folder = test_folder_root, .slot = SLOT};
    struct rlimit before, none = {4096, RLIM_INFINITY};
    struct recorder *recorder = NULL;
    struct error error = {0};

    (void)state;
    live(6);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int status = recorder_open(&options, &recorder, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, -EFBIG);
    assert_null(recorder);
    assert_non_null(strstr(error.text, "trace-3.new"));
    assert_int_equal(access(test_folder_at("trace-3.new"), F_OK), -1);
    assert_int_equal(newest_step(0), 6);
}

static void test_a_missing_folder_is_named(void **state)
{
    const struct recorder_options options = {.folder = "/nonexistent/job", .slot = SLOT};
    struct recorder *recorder;
    struct error error = {0};

    (void)state;
    assert_int_equal(recorder_open(&options, &recorder, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nonexistent/job/trace-3.new: No such file"));
}

static void test_a_worker_without_a_ring_goes_on(void **state)
{
    (void)state;
    recorder_enter(NULL, 1, 0, 0);
    recorder_applied(NULL, 1);
    recorder_add(NULL, 0, (struct trace_span){.kind = TRACE_STEP});
    recorder_add_kind(NULL, 0, TRACE_STEP, 1);
    recorder_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_spans_can_be_read_while_the_worker_goes_on),
        IN_FOLDER(test_the_ring_begins_again_at_its_end),
        IN_FOLDER(test_a_span_below_a_microsecond_is_left_out),
        IN_FOLDER(test_spans_survive_sigkill),
        IN_FOLDER(test_the_last_workers_of_a_slot_keep_their_rings),
        IN_FOLDER(test_workers_that_do_no_step_push_nothing_out),
        IN_FOLDER(test_a_damaged_ring_is_replaced),
        IN_FOLDER(test_a_ring_without_room_is_no_ring),
        cmocka_unit_test(test_a_missing_folder_is_named),
        cmocka_unit_test(test_a_worker_without_a_ring_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
