/* Tests of parts that generations have left half written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/write/folder_owner.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/sample.h"

static char folder[] = "/tmp/firn-parts-XXXXXX";

static void make(const char *name)
{
    char path[256];
    struct error error = {0};

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/%s/model-00001-of-00002.safetensors", folder, name);
    assert_int_equal(file_replace(path, "x", 1, 0644, &error), 0);
}

static bool there(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void make_all(void)
{
    make("step-0000000040.g3.part");
    make("step-0000000080.g4.part");
    make("step-0000000080.g5.part");
    make("step-0000000040.part");
    make("step-0000000020.g2.gone");
}

static void test_parts_of_ended_generations_go(void **state)
{
    struct error error = {0};

    (void)state;
    make_all();
    assert_int_equal(checkpoint_sweep_parts(folder, 5, &error), 0);
    assert_false(there("step-0000000040.g3.part"));
    assert_false(there("step-0000000080.g4.part"));
    assert_false(there("step-0000000080.g4.gone"));
    assert_true(there("step-0000000080.g5.part")); /* its workers write */
    assert_true(there("step-0000000040.part"));    /* the leader may fetch it */
    assert_int_equal(checkpoint_sweep_parts("/none", 5, &error), 0);
}

/* Sweep a node's folder even if its job has no checkpoint yet: otherwise a small disk would never
 * have room for one. */
static void test_they_go_without_any_record(void **state)
{
    const struct checkpoint_sweep sweep = {.folder = folder, .generation = 9};
    struct error error = {0};

    (void)state;
    make("step-0000000040.g3.part");
    assert_int_equal(checkpoint_sweep(&sweep, &error), 0);
    assert_false(there("step-0000000040.g3.part"));
    assert_false(there("step-0000000080.g5.part"));
}

/* Retention completes an interrupted removal, and removes abandoned part folders of a fetch. */
static void test_leftovers_go_with_retention_and_purge(void **state)
{
    struct error error = {0};
    size_t count;

    (void)state;
    sample_write(folder, 60, 1);
    assert_int_equal(checkpoint_retain(folder, 1, 60, 0, &error), 0);
    assert_false(there("step-0000000040.part"));
    assert_false(there("step-0000000020.g2.gone"));
    assert_true(there("step-0000000060"));
    make("step-0000000090.part");
    make("step-0000000090.g7.gone");
    assert_int_equal(checkpoint_purge(folder, &count, &error), 0);
    assert_false(there(""));
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_ended_generations_go),
        cmocka_unit_test(test_they_go_without_any_record),
        cmocka_unit_test(test_leftovers_go_with_retention_and_purge),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
