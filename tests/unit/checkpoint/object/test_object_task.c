/* The thread that sends and fetches reports its errors, and can be stopped while it waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/object/object_task.h"

static char file[] = "/tmp/firn-object-task-XXXXXX";
static int notify;

static struct object_task *start(const char *settings_file)
{
    const struct object_task_options options = {
        .kind = OBJECT_TASK_FETCH,
        .settings_file = settings_file,
        .bucket = "bucket",
        .job = "job",
        .step = 1,
        .manifest_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .folder = "/nonexistent/job/step-0000000001",
        .notify = notify,
    };
    struct object_task *task;
    assert_int_equal(object_task_start(&options, &task), 0);
    return task;
}

static void test_says_what_is_wrong(void **state)
{
    (void)state;
    struct object_task_state seen;
    uint64_t count;
    struct object_task *task = start("/nonexistent/object.conf");
    assert_int_equal(read(notify, &count, sizeof(count)), sizeof(count)); /* waits for the end */
    object_task_look(task, &seen);
    assert_true(seen.finished);
    assert_int_equal(seen.status, -ENOENT);
    assert_non_null(strstr(seen.error.text, "/nonexistent/object.conf"));
    object_task_free(task);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct object_task_state seen;
    uint64_t count;
    struct object_task *task = start(file);
    assert_int_equal(read(notify, &count, sizeof(count)), sizeof(count));
    object_task_look(task, &seen);
    assert_int_equal(seen.status, -EAGAIN);
    assert_non_null(strstr(seen.error.text, "GET s3://bucket/ at http://127.0.0.1:1"));
    assert_string_equal(seen.place, "s3://bucket/job/step-0000000001-0123456789abcdef/");
    assert_null(strstr(seen.error.text, "hush"));
    object_task_free(task);
}

static void test_is_stopped_at_once(void **state)
{
    (void)state;
    object_task_free(start(file)); /* at any point of its work: it returns */
    object_task_free(NULL);
    struct pollfd ready = {.fd = notify, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 0), 1); /* its end was signalled all the same */
}

static int set_up(void **state)
{
    (void)state;
    notify = eventfd(0, 0);
    int descriptor = mkstemp(file);
    if (notify < 0 || descriptor < 0)
        return -1;
    dprintf(descriptor, "endpoint = http://127.0.0.1:1\nregion = x\naccess_key = a\n"
                        "secret_key = hush\n");
    return close(descriptor);
}

static int tear_down(void **state)
{
    (void)state;
    close(notify);
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_is_wrong),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_is_stopped_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
