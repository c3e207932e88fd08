/*
 * The official safetensors package reads a finished checkpoint's folder. Needs python3 (or the
 * program that FIRN_PYTHON names) with safetensors and numpy; without them the test prints a
 * message and is skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "checkpoint/format/folder.h"
#include "lib/checkpoint/sample.h"

#define EXIT_SKIPPED 77

static int run_reference(const char *path)
{
    const char *python = getenv("FIRN_PYTHON");
    char script[] = FIRN_SOURCE "/tests/parity/safetensors_reference.py";
    char *const arguments[] = {(char *)(uintptr_t)(!python ? "python3" : python), script,
                               (char *)(uintptr_t)path, NULL};
    pid_t child;
    int status;
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ) != 0)
        return EXIT_SKIPPED;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_the_official_reader_opens_it(void **state)
{
    (void)state;
    char folder[64], path[1024];
    struct sample sample;
    struct error error = {0};
    sample_folder(folder);
    sample_init(&sample, 1);
    for (unsigned i = 0; i < SAMPLE_TENSORS; i++) {
        for (size_t k = 0; k < sample.tensors[i].count; k++)
            sample.values[i][k] = (float)(1000 * (i / 3) + k);
    }
    const char *why;
    const struct io *io = io_probe(&why);
    struct checkpoint_writer *writer = sample_writer(io, 0);
    if (sample_save_values(writer, io, folder, 1, 2, &sample, &error) != 0)
        fail_msg("%s", error.text);
    checkpoint_writer_stop(writer);
    checkpoint_path(folder, 1, path);
    int status = run_reference(path);
    sample_remove(folder);
    sample_done(&sample);
    if (status == EXIT_SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_official_reader_opens_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
