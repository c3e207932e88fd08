/* Keys stay with their owner: no core dumps, no debugger, and a warning about files that all may
 * read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secrecy.h"

/* Return 0: guarded; 1: not; in a separate process */
static int guard_in_child(const char *wish)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit core;
        if (wish)
            setenv("FIRN_DUMPABLE", wish, 1);
        else
            unsetenv("FIRN_DUMPABLE");
        prctl(PR_SET_DUMPABLE, 1);
        secrecy_guard_process();
        getrlimit(RLIMIT_CORE, &core);
        _exit(prctl(PR_GET_DUMPABLE) == 0 && core.rlim_max == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_process_is_guarded(void **state)
{
    (void)state;
    assert_int_equal(guard_in_child(NULL), 0);
    assert_int_equal(guard_in_child("0"), 0);
    assert_int_equal(guard_in_child("1"), 1);
}

static char heard[512];

static void hear(enum log_level level, const char *text, const struct log_field *fields,
                 size_t field_count, void *context)
{
    (void)context, (void)level, (void)fields, (void)field_count;
    snprintf(heard, sizeof(heard), "%s", text);
}

static void test_open_files_are_told(void **state)
{
    static char path[] = "/tmp/firn-secrecy-XXXXXX";
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    log_set_sink(hear, NULL);
    assert_int_equal(chmod(path, 0640), 0);
    secrecy_warn_of_file(path, "a password");
    secrecy_warn_of_file("/nowhere", "a password");
    assert_string_equal(heard, "");
    assert_int_equal(chmod(path, 0644), 0);
    secrecy_warn_of_file(path, "a password");
    assert_non_null(strstr(heard, "chmod o-rwx /tmp/firn-secrecy-"));
    log_set_sink(NULL, NULL);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_is_guarded),
        cmocka_unit_test(test_open_files_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
