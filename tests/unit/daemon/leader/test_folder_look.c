/* Tests of looks at checkpoints that are there, gone, or on a file server that hangs: a manifest
 * that is a FIFO lets its reader wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"
#include "daemon/leader/folder_look.h"
#include "lib/checkpoint/sample.h"
#include "membership/transport/poll_loop.h"

static char base[] = "/tmp/firn-folder-look-XXXXXX";
static struct poll_loop *real;
static struct loop loop;
static uint64_t skipped_ns; /* time that passes without waiting */
static bool has_ended;
static struct folder_look *look;

static uint64_t now_ns(void *context)
{
    return poll_loop_table(real)->now_ns(context) + skipped_ns;
}

static void on_ended(void *user)
{
    (void)user;
    has_ended = true;
}

static void await_end(void)
{
    assert_int_equal(poll_loop_run(real, &has_ended, clock_monotonic_ns() + 60 * NS_PER_SECOND), 0);
    has_ended = false;
}

static int status_of(const char *path)
{
    struct error error = {0};
    int status;

    while (!folder_look_at(look, path, &status, &error))
        await_end();
    return status;
}

static void test_a_folder_is_there_or_not(void **state)
{
    char there[1024], gone[1024];

    (void)state;
    sample_write(base, 3, 1);
    checkpoint_path(base, 3, there);
    checkpoint_path(base, 4, gone);
    assert_int_equal(status_of(there), 0);
    assert_int_equal(status_of(gone), -ENOENT);
    assert_int_equal(status_of(there), 0);
}

static void test_a_result_is_of_its_folder_and_fresh(void **state)
{
    char there[1024], gone[1024];
    struct error error = {0};
    int status;

    (void)state;
    checkpoint_path(base, 3, there);
    checkpoint_path(base, 4, gone);
    assert_false(folder_look_at(look, there, &status, &error));
    await_end();
    assert_false(folder_look_at(look, gone, &status, &error)); /* another folder */
    await_end();
    skipped_ns += 60 * NS_PER_SECOND;
    assert_false(folder_look_at(look, gone, &status, &error)); /* too old */
    await_end();
    assert_true(folder_look_at(look, gone, &status, &error));
    assert_int_equal(status, -ENOENT);
}

static void test_a_result_of_a_long_look_is_fresh(void **state)
{
    char there[1024];
    struct error error = {0};
    int status = -1;

    (void)state;
    checkpoint_path(base, 3, there);
    assert_false(folder_look_at(look, there, &status, &error));
    skipped_ns += 60 * NS_PER_SECOND;
    await_end();
    assert_true(folder_look_at(look, there, &status, &error));
    assert_int_equal(status, 0);
}

static void test_a_server_that_hangs_is_not_waited_for(void **state)
{
    char folder[1024], manifest[1100], other[1024];
    struct error error = {0};
    int status;

    (void)state;
    checkpoint_path(base, 7, folder);
    checkpoint_path(base, 3, other);
    snprintf(manifest, sizeof(manifest), "%s/" MANIFEST_NAME, folder);
    assert_int_equal(mkdir(folder, 0755) | mkfifo(manifest, 0644), 0);
    assert_false(folder_look_at(look, folder, &status, &error));
    skipped_ns += ERRAND_PATIENCE_NS;
    assert_true(folder_look_at(look, folder, &status, &error));
    assert_int_equal(status, -ETIMEDOUT);
    assert_non_null(strstr(error.text, folder));
    assert_true(folder_look_at(look, other, &status, &error)); /* one thread waits, not two */
    assert_int_equal(status, -ETIMEDOUT);
    int writer = open(manifest, O_WRONLY); /* it answers */
    assert_true(writer >= 0);
    close(writer);
    await_end();
    assert_int_equal(status_of(other), 0);
}

/* The thread ends by itself. */
static void test_a_look_is_left(void **state)
{
    char there[1024];
    struct error error = {0};
    int status;

    (void)state;
    checkpoint_path(base, 3, there);
    struct folder_look *left = folder_look_new(&loop, on_ended, NULL);
    assert_false(folder_look_at(left, there, &status, &error));
    folder_look_free(left);
    folder_look_free(NULL);
}

static int set_up(void **state)
{
    (void)state;
    real = poll_loop_new();
    loop = *poll_loop_table(real);
    loop.now_ns = now_ns;
    look = folder_look_new(&loop, on_ended, NULL);
    return mkdtemp(base) && look ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    folder_look_free(look);
    poll_loop_free(real);
    sample_remove(base);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_folder_is_there_or_not),
        cmocka_unit_test(test_a_result_is_of_its_folder_and_fresh),
        cmocka_unit_test(test_a_result_of_a_long_look_is_fresh),
        cmocka_unit_test(test_a_server_that_hangs_is_not_waited_for),
        cmocka_unit_test(test_a_look_is_left),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
