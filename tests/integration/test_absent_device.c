/*
 * A device that does not open is a failure of its slot. If the node refused the job instead, one
 * broken GPU would end a job that other slots can continue.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "integration/worker_crew.h"

static bool has_ended(const struct crew *crew, void *context)
{
    (void)context;
    return crew->workers[0].exited;
}

static void test_it_is_tried_again_and_refuses_no_job(void **state)
{
    struct job_spec spec = crew_job("absent", CREW_GPT2, 4, 1, 1);
    struct crew crew;
    char library[300]; /* a FIFO, whose open() waits for the worker: it is connected by then */

    (void)state;
    crew_init(&crew, &spec);
    crew.device = "cuda";
    snprintf(library, sizeof(library), "%s/library", crew.dir);
    assert_int_equal(mkfifo(library, 0600), 0);
    assert_int_equal(setenv("FIRN_CUDA_LIBRARY", library, 1), 0);
    crew_spawn(&crew, 0);
    int end = open(library, O_WRONLY | O_CLOEXEC);
    assert_true(end >= 0);
    close(end);
    crew_pump(&crew, has_ended, NULL, 30);
    assert_int_equal(crew.workers[0].status.phase, WORKER_STARTING);
    assert_true(WIFEXITED(crew.workers[0].exit_status));
    assert_int_equal(WEXITSTATUS(crew.workers[0].exit_status), 1);
    crew_done(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_is_tried_again_and_refuses_no_job)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
