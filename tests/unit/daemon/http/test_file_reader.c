/* Tests of reading files beside the loop: while a disk hangs, the queue is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "daemon/http/file_reader.h"

#define MANY 1000

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static void read_hung(struct file_task *task)
{
    (void)task;
    pthread_mutex_lock(&disk);
    pthread_mutex_unlock(&disk);
}

static void on_done(void *context, struct file_task *task)
{
    unsigned *done = context;

    ++*done;
    free(task);
}

static void test_a_disk_that_hangs_holds_some_requests(void **state)
{
    struct event_loop loop;
    struct file_reader *reader;
    struct error error = {0};
    unsigned done = 0, queued = 0;

    (void)state;
    assert_int_equal(event_loop_init(&loop), 0);
    assert_int_equal(file_reader_start(&loop, on_done, &done, &reader, &error), 0);
    pthread_mutex_lock(&disk);
    for (; queued < MANY && file_reader_has_room(reader); queued++) {
        struct file_task *task = calloc(1, sizeof(*task));
        assert_non_null(task);
        task->run = read_hung;
        file_reader_queue(reader, task);
    }
    assert_in_range(queued, 2, MANY / 2);
    assert_int_equal(done, 0);
    pthread_mutex_unlock(&disk);
    while (done < queued)
        assert_true(sd_event_run(loop.event, 60 * 1000 * 1000) >= 0);
    assert_true(file_reader_has_room(reader));
    file_reader_stop(reader);
    event_loop_done(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_disk_that_hangs_holds_some_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
