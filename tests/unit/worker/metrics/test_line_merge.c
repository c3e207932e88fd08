/* Tests of merging lines of two nodes: which line of a step stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/metrics/line_merge.h"

/* A side as a text: for each line its step, a letter for its bits, and its generation. */
struct side {
    struct exact_steps steps;
    struct bytes text;
    struct merge_side merge;
};

static void side_make(struct side *side, const char *lines)
{
    *side = (struct side){0};
    while (*lines) {
        char *end;
        unsigned long step = strtoul(lines, &end, 10); /* skips spaces */
        char bits = *end;
        unsigned long generation = strtoul(end + 1, &end, 10);
        lines = end;
        const struct exact exact = {
            .step = step, .loss_bits = {bits, '\0'}, .generation = generation};
        assert_int_equal(exact_steps_add(&side->steps, &exact), 0);
        assert_int_equal(bytes_append_format(&side->text, "%lu%c%lu\n", step, bits, generation), 0);
    }
    side->merge = (struct merge_side){.steps = &side->steps, .text = &side->text};
}

static void side_done(struct side *side)
{
    exact_steps_done(&side->steps);
    bytes_done(&side->text);
}

static void test_which_line_stays(void **state)
{
    static const struct {
        const char *mine, *theirs, *merged;
        bool learns;
    } cases[] = {
        {"", "", "", false},
        {"1a1 2a1", "", "1a1\n2a1\n", false},
        {"", "1a1 2a1", "1a1\n2a1\n", true},
        {"2a1 5a1", "1a1 3a1 6a1", "1a1\n2a1\n3a1\n5a1\n6a1\n", true},
        {"1a1 2a1", "1a7 2a7", "1a1\n2a1\n", false},     /* the same bits: the first line stays */
        {"1a2 2a2", "1b1 2b2", "1a2\n2a2\n", false},     /* no later generation: so does mine */
        {"1a1 2a1 3a1", "2b2", "1a1\n2b2\n3a1\n", true}, /* a later one corrects it */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct side mine, theirs;
        struct bytes merged = {0};
        side_make(&mine, cases[i].mine);
        side_make(&theirs, cases[i].theirs);
        assert_int_equal(line_merge_learns(&mine.steps, &theirs.steps), cases[i].learns);
        assert_int_equal(line_merge(&mine.merge, &theirs.merge, &merged), 0);
        assert_int_equal(merged.size_bytes, strlen(cases[i].merged));
        if (merged.size_bytes)
            assert_memory_equal(merged.data, cases[i].merged, merged.size_bytes);
        bytes_done(&merged);
        side_done(&mine);
        side_done(&theirs);
    }
}

/* The file has become shorter since its steps were read. */
static void test_a_text_that_lacks_lines(void **state)
{
    struct side mine, theirs;
    struct bytes merged = {0};

    (void)state;
    side_make(&mine, "1a1 2a1");
    side_make(&theirs, "3a1");
    mine.text.size_bytes -= 1; /* the newline of the last line */
    assert_int_equal(line_merge(&mine.merge, &theirs.merge, &merged), -EBADMSG);
    bytes_done(&merged);
    side_done(&mine);
    side_done(&theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_line_stays),
        cmocka_unit_test(test_a_text_that_lacks_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
