/* Tests that a new firnd has the other nodes that an earlier firnd knew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "daemon/jobs/neighbours_file.h"

static struct config config;

static int setup(void **state)
{
    static char folder[] = "/tmp/firn-neighbours-XXXXXX";

    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(config.run_dir, sizeof(config.run_dir), "%s", folder);
    return 0;
}

static void put(const char *text)
{
    char path[CONFIG_TEXT_SIZE + 32];

    snprintf(path, sizeof(path), "%s/neighbours.json", config.run_dir);
    assert_int_equal(file_replace(path, text, strlen(text), 0644, NULL), 0);
}

static int teardown(void **state)
{
    char path[CONFIG_TEXT_SIZE + 32];

    (void)state;
    snprintf(path, sizeof(path), "%s/neighbours.json", config.run_dir);
    return unlink(path) || rmdir(config.run_dir);
}

static void test_what_is_saved_is_loaded(void **state)
{
    static const struct neighbour list[] = {{"b", "10.0.0.2:7400"}, {"c", "10.0.0.3:7400"}};
    static struct neighbour back[NEIGHBOURS_MAX];

    (void)state;
    assert_int_equal(neighbours_load(&config, back), 0);
    neighbours_save(&config, list, 2);
    assert_int_equal(neighbours_load(&config, back), 2);
    assert_string_equal(back[0].name, "b");
    assert_string_equal(back[1].http, "10.0.0.3:7400");
    neighbours_save(&config, list, 1);
    assert_int_equal(neighbours_load(&config, back), 1);
}

static void test_what_is_damaged_is_nothing(void **state)
{
    static struct neighbour back[NEIGHBOURS_MAX];

    (void)state;
    put("{\"neighbours\":[");
    assert_int_equal(neighbours_load(&config, back), 0);
    put("{\"neighbours\":[{\"name\":7},{\"name\":\"b\",\"http\":\"h:1\"}]}");
    assert_int_equal(neighbours_load(&config, back), 1);
    assert_string_equal(back[0].name, "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_saved_is_loaded),
        cmocka_unit_test(test_what_is_damaged_is_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
