/*
 * Tests that a plan for another program version is refused, with a message that names the remedy.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "comm/mesh/frame.h"
#include "lib/elastic/ranked_plan.h"
#include "worker/session/plan_match.h"

static char identity[64];

static void check(struct plan *plan, const char *words)
{
    struct error error = {0};
    int status = plan_match_check(plan, KERNEL_BACKEND_CPU, &error);

    assert_int_equal(status, words ? -EPROTONOSUPPORT : 0);
    if (words && !strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_links(void **state)
{
    struct plan *plan = *state;
    char words[64];

    check(plan, NULL); /* of a leader that reports no version */
    plan->links.protocol = frame_version();
    check(plan, NULL);
    plan->links.protocol = frame_version() + 1;
    snprintf(words, sizeof(words), "its firnd registered %u: restart firnd", plan->links.protocol);
    check(plan, words);
    plan->links.protocol = 0;
}

static void test_arithmetic(void **state)
{
    struct plan *plan = *state;

    snprintf(plan->numerics, sizeof(plan->numerics), "%s", identity);
    check(plan, NULL);
    snprintf(plan->numerics, sizeof(plan->numerics), "%s, 2 threads", identity);
    check(plan, NULL);
    snprintf(plan->numerics, sizeof(plan->numerics), "%s1, 2 threads", identity);
    check(plan, "this firn-worker computes with ");
    snprintf(plan->numerics, sizeof(plan->numerics), "OpenBLAS 9 Zen, kernels 1");
    check(plan, "its firnd registered OpenBLAS 9 Zen, kernels 1: restart firnd");
}

static int set_up(void **state)
{
    struct error error = {0};

    *state = ranked_plan(1);
    return kernel_backend_identity(KERNEL_BACKEND_CPU, identity, sizeof(identity), &error);
}

static int tear_down(void **state)
{
    plan_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_arithmetic),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
