/* Command lines against the table of commands, and the table against itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/command/arguments.h"

static struct arguments arguments;
static struct error error;

#define PARSE(...)                                                                                 \
    ({                                                                                             \
        const char *words[] = {__VA_ARGS__};                                                       \
        memset(&error, 0, sizeof(error));                                                          \
        arguments_parse((int)ARRAY_COUNT(words), words, &arguments, &error);                       \
    })

static void test_flags_may_stand_anywhere(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--cluster", "x", "job", "submit", "--wait", "f.yaml", "--name=n"), 0);
    assert_string_equal(arguments.command->name, "job submit");
    assert_int_equal(arguments.operand_count, 1);
    assert_string_equal(arguments.operands[0], "f.yaml");
    assert_true(arguments_has(&arguments, "wait"));
    assert_false(arguments_has(&arguments, "json"));
    assert_string_equal(arguments_text(&arguments, "cluster", NULL), "x");
    assert_string_equal(arguments_text(&arguments, "name", NULL), "n");
    assert_int_equal(PARSE("job", "--json", "list"), 0);
    assert_string_equal(arguments.command->name, "job list");
}

static void test_the_last_value_wins_and_all_can_be_had(void **state)
{
    (void)state;
    assert_int_equal(PARSE("job", "submit", "f", "--set", "a=1", "--set=b=2", "--devices", "3",
                           "--devices", "4"),
                     0);
    assert_string_equal(arguments_each(&arguments, "set", 0), "a=1");
    assert_string_equal(arguments_each(&arguments, "set", 1), "b=2");
    assert_null(arguments_each(&arguments, "set", 2));
    assert_int_equal(arguments_number(&arguments, "devices", 9), 4);
    assert_int_equal(arguments_number(&arguments, "stages", 9), 9);
}

static void test_two_dashes_end_the_flags(void **state)
{
    (void)state;
    assert_int_equal(PARSE("watch", "--", "--odd"), 0);
    assert_string_equal(arguments.operands[0], "--odd");
    assert_int_equal(PARSE("sample", "j", "--prompt=--x"), 0); /* a value may look like a flag */
    assert_string_equal(arguments_text(&arguments, "prompt", NULL), "--x");
}

static void expect_refusal(int status, const char *words)
{
    assert_int_equal(status, -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_mistakes_are_answered_with_what_was_meant(void **state)
{
    (void)state;
    expect_refusal(PARSE("job", "sumbit", "f"), "\"job submit\"");
    expect_refusal(PARSE("jbo", "list"), "\"job list\"");
    expect_refusal(PARSE("tpo"), "\"top\"");
    expect_refusal(PARSE("watc", "demo"), "\"watch\"");
    expect_refusal(PARSE("job"), "submit, list, show");
    expect_refusal(PARSE("frobnicate"), "firnctl help");
    expect_refusal(PARSE("job", "list", "--jsn"), "--json");
    expect_refusal(PARSE("job", "list", "--wait"), "has no flag --wait");
    expect_refusal(PARSE("job", "list", "-x"), "two dashes");
}

static void test_values_are_checked(void **state)
{
    (void)state;
    expect_refusal(PARSE("local", "up", "--nodes", "0"), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes", "27"), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes", "-1"), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes", "-18446744073709551613"), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes", "3x"), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes", ""), "from 1 to 26");
    expect_refusal(PARSE("local", "up", "--nodes"), "--nodes needs N");
    expect_refusal(PARSE("local", "up", "--dir", ""), "without a value");
    expect_refusal(PARSE("local", "up", "--dir", "--nodes", "3"),
                   "--dir needs DIR, but \"--nodes\" looks like a flag; write --dir=--nodes");
    assert_int_equal(PARSE("sample", "j", "--prompt=--help"), 0);
    expect_refusal(PARSE("job", "list", "--json=yes"), "takes no value");
    expect_refusal(PARSE("sample", "j", "--temperature", "warm"), "not a number");
    expect_refusal(PARSE("sample", "j", "--temperature", "nan"), "not a number");
    assert_int_equal(PARSE("sample", "j", "--temperature", "0.5"), 0);
    /* The same flag means other things to other commands. */
    assert_int_equal(PARSE("plan", "f", "--slots", "8@80GiB"), 0);
    expect_refusal(PARSE("local", "up", "--slots", "8@80GiB"), "whole number");
}

static void test_operands_are_counted(void **state)
{
    (void)state;
    expect_refusal(PARSE("job", "show"), "job show needs JOB");
    expect_refusal(PARSE("job", "show", "a", "b"), "unexpected argument \"b\"");
    expect_refusal(PARSE("top", "x"), "unexpected argument");
}

static void test_too_much_is_refused(void **state)
{
    (void)state;
    const char *words[2 * ARGUMENTS_FLAGS_MAX + 4] = {"job", "list"};
    for (size_t i = 2; i < ARRAY_COUNT(words); i++)
        words[i] = "--json";
    memset(&error, 0, sizeof(error));
    expect_refusal(arguments_parse((int)ARRAY_COUNT(words), words, &arguments, &error), "flags");
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        words[i] = "word";
    expect_refusal(arguments_parse((int)ARRAY_COUNT(words), words, &arguments, &error), "words");
}

static void test_help_comes_before_all_checks(void **state)
{
    (void)state;
    assert_int_equal(PARSE("job", "show", "--help"), 0);
    assert_true(arguments.help);
    assert_string_equal(arguments.command->name, "job show");
    assert_int_equal(PARSE("nonsense", "-h"), 0);
    assert_true(arguments.help);
    assert_null(arguments.command);
    assert_int_equal(PARSE("help", "job", "submit"), 0);
    assert_string_equal(arguments.command->name, "help");
    assert_int_equal(arguments.operand_count, 2);
}

static void test_version_is_a_flag_too(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--version"), 0);
    assert_string_equal(arguments.command->name, "version");
    expect_refusal(PARSE("job", "list", "--version"), "unexpected argument");
}

static void check_flags(const struct flag *const *flags, const struct command *command)
{
    for (; *flags; flags++) {
        const struct flag *first = command_any_flag((*flags)->name);
        /* Flags are read before the command is known, so equal names take a value or they do not.
         */
        assert_int_equal(first->type == FLAG_SWITCH, (*flags)->type == FLAG_SWITCH);
        assert_int_equal((*flags)->type == FLAG_SWITCH, !(*flags)->value);
        assert_true((*flags)->help[0] != '\0');
        if (command)
            assert_ptr_equal(command_flag(command, (*flags)->name), *flags);
    }
}

static void test_the_table_is_sound(void **state)
{
    (void)state;
    check_flags(command_global_flags, NULL);
    for (unsigned i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        assert_ptr_equal(command_find(command->name), command); /* no name twice */
        assert_non_null(command->run);
        assert_non_null(command->summary);
        assert_true(command->operands_min <= command->operands_max);
        assert_int_equal(command->operands_max > 0, command->operands[0] != '\0');
        check_flags(command->flags, command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_may_stand_anywhere),
        cmocka_unit_test(test_the_last_value_wins_and_all_can_be_had),
        cmocka_unit_test(test_two_dashes_end_the_flags),
        cmocka_unit_test(test_mistakes_are_answered_with_what_was_meant),
        cmocka_unit_test(test_values_are_checked),
        cmocka_unit_test(test_operands_are_counted),
        cmocka_unit_test(test_too_much_is_refused),
        cmocka_unit_test(test_help_comes_before_all_checks),
        cmocka_unit_test(test_version_is_a_flag_too),
        cmocka_unit_test(test_the_table_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
