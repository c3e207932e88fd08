/* The manual page and the shell completion have every command and flag of the table, and no other.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "ctl/command/command.h"
#include "ctl/help.h"

static struct bytes text;

static const char *load(const char *below)
{
    char path[1024];
    struct error error = {0};
    snprintf(path, sizeof(path), FIRN_SOURCE "/%s", below);
    bytes_done(&text);
    if (file_read(path, (size_t)1 << 20, &text, &error))
        fail_msg("%s", error.text);
    return (const char *)text.data;
}

static int teardown(void **state)
{
    (void)state;
    bytes_done(&text);
    return 0;
}

/* "\-\-dry\-run" as troff writes it. */
static void troff_flag(const char *name, char *ret, size_t size)
{
    size_t used = (size_t)snprintf(ret, size, "\\-\\-");
    for (; *name; name++)
        used += (size_t)snprintf(ret + used, size - used, *name == '-' ? "\\-" : "%c", *name);
}

/* Return the text below ".SS firnctl job submit" up to the next heading. */
static const char *section(const char *page, const char *name, size_t *ret_length)
{
    char heading[192];
    snprintf(heading, sizeof(heading), "\n.SS %s\n", name);
    const char *begin = strstr(page, heading);
    if (!begin)
        fail_msg("the manual page has no \"%s\"", heading + 1);
    begin += strlen(heading);
    const char *end = strstr(begin, "\n.S");
    *ret_length = end ? (size_t)(end - begin) : strlen(begin);
    return begin;
}

static void expect_flags(const char *begin, size_t length, const struct flag *const *flags,
                         const char *where)
{
    unsigned wanted = 0, found = 0;
    for (; *flags; flags++, wanted++) {
        char flag[128], line[160];
        troff_flag((*flags)->name, flag, sizeof(flag));
        snprintf(line, sizeof(line), "\n.B%s %s%s", (*flags)->value ? "I" : "", flag,
                 (*flags)->value ? " \" " : "\n");
        if (!memmem(begin, length, line, strlen(line)))
            fail_msg("the manual page does not have --%s under %s", (*flags)->name, where);
    }
    const char *kinds[] = {"\n.B \\-\\-", "\n.BI \\-\\-"};
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        for (const char *at = begin;
             (at = memmem(at, length - (size_t)(at - begin), kinds[i], strlen(kinds[i]))); at++)
            found++;
    if (found != wanted)
        fail_msg("the manual page has %u flags under %s, not %u", found, where, wanted);
}

static void test_the_manual_page_has_every_command_and_its_flags(void **state)
{
    (void)state;
    const char *page = load("docs/man/firnctl.1");
    size_t length;
    for (unsigned i = 0; i < command_count; i++) {
        char name[128];
        snprintf(name, sizeof(name), "firnctl %s", commands[i].name);
        const char *begin = section(page, name, &length);
        expect_flags(begin, length, commands[i].flags, name);
    }
    const char *options = strstr(page, "\n.SH OPTIONS\n");
    assert_non_null(options);
    expect_flags(options, (size_t)(strstr(options + 1, "\n.SH ") - options), command_global_flags,
                 "OPTIONS");
}

/* "\nPrint a job's events": the table's summary as troff writes the begin of a sentence. */
static void troff_summary(const char *summary, char *ret, size_t size)
{
    size_t used = (size_t)snprintf(ret, size, "\n%c", toupper((unsigned char)summary[0]));
    for (summary++; *summary; summary++)
        used += (size_t)snprintf(ret + used, size - used, *summary == '-' ? "\\-" : "%c", *summary);
}

static void test_the_manual_page_describes_each_command_by_its_summary(void **state)
{
    (void)state;
    const char *page = load("docs/man/firnctl.1");
    size_t length;
    for (unsigned i = 0; i < command_count; i++) {
        char name[128], line[256];
        snprintf(name, sizeof(name), "firnctl %s", commands[i].name);
        const char *begin = section(page, name, &length) - 1;
        troff_summary(commands[i].summary, line, sizeof(line));
        const char *found = memmem(begin, length + 1, line, strlen(line));
        if (!found || !strchr(".,", found[strlen(line)]))
            fail_msg("the manual page does not have this line under %s:%s", name, line);
    }
}

static unsigned sections_of(const char *page)
{
    unsigned count = 0;
    for (const char *at = page; (at = strstr(at, "\n.SS firnctl ")); at++)
        count++;
    return count;
}

static void test_the_manual_page_has_no_command_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(sections_of(load("docs/man/firnctl.1")), command_count);
}

static size_t join_flags(const struct flag *const *flags, char *into, size_t used, size_t size)
{
    for (; *flags; flags++)
        used += (size_t)snprintf(into + used, size - used, " --%s", (*flags)->name);
    return used;
}

/* The completion has a line "'job submit') flags='--a --b' ;;" for each command. */
static void test_the_completion_has_every_command_and_its_flags(void **state)
{
    (void)state;
    const char *script = load("ctl/completion/firnctl.bash");
    unsigned count = 0;
    for (unsigned i = 0; i < command_count; i++) {
        char flags[1024] = "", line[1200];
        join_flags(commands[i].flags, flags, 0, sizeof(flags));
        snprintf(line, sizeof(line), "    '%s') flags='%s' ;;\n", commands[i].name,
                 flags[0] ? flags + 1 : "");
        if (!strstr(script, line))
            fail_msg("the completion does not have this line:\n%s", line);
    }
    for (const char *at = script; (at = strstr(at, "') flags='")); at++)
        count++;
    assert_int_equal(count, command_count);
}

static void test_the_completion_has_the_global_flags_and_first_words(void **state)
{
    (void)state;
    const char *script = load("ctl/completion/firnctl.bash");
    char flags[256] = "", line[300];
    join_flags(command_global_flags, flags, 0, sizeof(flags));
    snprintf(line, sizeof(line), "global_flags='%s --help'\n", flags + 1);
    if (!strstr(script, line))
        fail_msg("the completion does not have this line:\n%s", line);
    for (unsigned i = 0; i < command_count; i++) {
        size_t length = strcspn(commands[i].name, " ");
        snprintf(line, sizeof(line), "%.*s", (int)length, commands[i].name);
        const char *words = strstr(script, "first_words='");
        assert_non_null(words);
        const char *word = strstr(words, line);
        assert_true(word && word < strchr(words, '\n'));
        if (commands[i].name[length]) {
            snprintf(line, sizeof(line), "    %.*s) second_words='", (int)length, commands[i].name);
            const char *group = strstr(script, line);
            assert_non_null(group);
            const char *second = strstr(group, commands[i].name + length + 1);
            assert_true(second && second < strchr(group, '\n'));
        }
    }
}

/* Rows of daemon/config/config_schema.c's table begin {"link_port", CONFIG_TYPE_UNSIGNED. */
static void test_the_manual_page_of_firnd_has_every_key(void **state)
{
    (void)state;
    unsigned count = 0;
    AUTO_FREE char *source = strdup(load("daemon/config/config_schema.c"));
    const char *page = load("docs/man/firnd.8");
    for (const char *at = source; (at = strstr(at, "{\"")); at++) {
        char key[64], word[80];
        if (sscanf(at, "{\"%63[a-z_]\", CONFIG_TYPE_%79[A-Z]", key, word) != 2)
            continue;
        /* ".B key" alone, or one of several after ".BR" */
        snprintf(word, sizeof(word), "\n.B %s\n", key);
        bool alone = strstr(page, word);
        snprintf(word, sizeof(word), " %s", key);
        const char *among = strstr(page, word);
        while (among && among[-1] != '"' && strncmp(among - 3, ".BR", 3) != 0)
            among = strstr(among + 1, word);
        if (!alone && !among)
            fail_msg("firnd(8) does not have the key %s", key);
        count++;
    }
    assert_true(count >= 33);
}

/* Return the standard output of @print. */
static const char *printed(void (*print)(void))
{
    FILE *file = tmpfile();
    int before = dup(STDOUT_FILENO);
    assert_non_null(file);
    fflush(stdout);
    assert_true(before >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    print();
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    bytes_done(&text);
    char block[4096];
    for (size_t size; (size = fread(block, 1, sizeof(block), file)) > 0;)
        assert_int_equal(bytes_append(&text, block, size), 0);
    assert_int_equal(bytes_append(&text, "", 1), 0);
    fclose(file);
    return (const char *)text.data;
}

static void test_the_list_of_commands_fits_a_terminal(void **state)
{
    const char *line = printed(help_print_all);
    unsigned lines = 0;
    (void)state;
    for (size_t length; *line; line += length + 1, lines++) {
        length = strcspn(line, "\n");
        if (length > 80 || (length && line[length - 1] == ' '))
            fail_msg("too wide, or with a blank at its end: \"%.*s\"", (int)length, line);
    }
    assert_true(lines > command_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_manual_page_has_every_command_and_its_flags, teardown),
        cmocka_unit_test_teardown(test_the_manual_page_describes_each_command_by_its_summary,
                                  teardown),
        cmocka_unit_test_teardown(test_the_manual_page_has_no_command_that_is_not_there, teardown),
        cmocka_unit_test_teardown(test_the_completion_has_every_command_and_its_flags, teardown),
        cmocka_unit_test_teardown(test_the_completion_has_the_global_flags_and_first_words,
                                  teardown),
        cmocka_unit_test_teardown(test_the_manual_page_of_firnd_has_every_key, teardown),
        cmocka_unit_test_teardown(test_the_list_of_commands_fits_a_terminal, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
