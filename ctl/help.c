/* firnctl help and version: the table of commands as text. */
#include "ctl/help.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/command/commands.h"
#include "ctl/view/terminal.h"

#define NAME_COLUMNS 26
#define FLAG_COLUMNS 22
#define HELP_COLUMNS 80

static void print_bold(const char *text)
{
    printf("%s%s%s", terminal_color(TERMINAL_BOLD), text, terminal_color(TERMINAL_PLAIN));
}

/* Print @text wrapped at HELP_COLUMNS, after @indent columns that are printed already. */
static void print_wrapped(const char *text, unsigned indent)
{
    for (unsigned column = indent; *text;) {
        unsigned length = (unsigned)strcspn(text, " ");
        if (column > indent && column + 1 + length > HELP_COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        }
        column += (unsigned)printf("%s%.*s", column > indent ? " " : "", (int)length, text);
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

/* Print "  @words  @text": the text in its column, on the next line if the words are too long. */
static void print_row(const char *words, unsigned columns, const char *text)
{
    if (strlen(words) > columns)
        printf("  %s\n%*s", words, (int)columns + 3, "");
    else
        printf("  %-*s ", (int)columns, words);
    print_wrapped(text, columns + 3);
}

static void print_flags(const struct flag *const *flags)
{
    for (; *flags; flags++) {
        char words[64];
        snprintf(words, sizeof(words), "--%s%s%s", (*flags)->name, (*flags)->value ? " " : "",
                 (*flags)->value ? (*flags)->value : "");
        print_row(words, FLAG_COLUMNS, (*flags)->help);
    }
}

/* Return the length of "job" in "job list": commands of one group are listed together. */
static size_t group_length(const char *name)
{
    return strcspn(name, " ");
}

void help_print_all(void)
{
    print_bold("firnctl");
    printf(" - train on a firn cluster, watch it, change it, break it\n\n"
           "usage: firnctl COMMAND [OPERANDS] [--FLAGS]\n");
    for (unsigned i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        const char *before = i ? commands[i - 1].name : "";
        char words[64];
        if (group_length(before) != group_length(command->name) ||
            strncmp(before, command->name, group_length(before)))
            if (strchr(command->name, ' ') || strchr(before, ' '))
                putchar('\n');
        snprintf(words, sizeof(words), "%s %s", command->name, command->operands);
        print_row(words, NAME_COLUMNS, command->summary);
    }
    printf("\nEverywhere:\n");
    print_flags(command_global_flags);
    printf("\nA first look:  firnctl local up --dir /tmp/c1 --nodes 3 --slots 2\n"
           "               eval \"$(firnctl local env --dir /tmp/c1)\"\n"
           "               firnctl job submit examples/demo.yaml --wait\n"
           "firnctl help COMMAND tells more; exit codes: 0 done, 1 failed, 2 called wrongly.\n");
}

void help_print_command(const struct command *command)
{
    print_bold("firnctl ");
    print_bold(command->name);
    printf(" - %s\n\nusage: firnctl %s%s%s%s\n", command->summary, command->name,
           command->operands[0] ? " " : "", command->operands,
           command->flags[0] ? " [--FLAGS]" : "");
    if (command->details)
        printf("\n%s\n", command->details);
    if (command->flags[0]) {
        printf("\n");
        print_flags(command->flags);
    }
    printf("\nEverywhere:\n");
    print_flags(command_global_flags);
}

static bool print_group(const char *name)
{
    bool found = false;

    for (unsigned i = 0; i < command_count; i++) {
        size_t length = group_length(commands[i].name);
        if (strlen(name) != length || strncmp(commands[i].name, name, length))
            continue;
        printf("  firnctl %s %s\n      %s\n", commands[i].name, commands[i].operands,
               commands[i].summary);
        found = true;
    }
    return found;
}

int run_help(const struct arguments *arguments, struct error *error)
{
    char name[128];

    if (!arguments->operand_count) {
        help_print_all();
        return 0;
    }
    snprintf(name, sizeof(name), "%s%s%s", arguments->operands[0],
             arguments->operand_count > 1 ? " " : "",
             arguments->operand_count > 1 ? arguments->operands[1] : "");
    const struct command *command = command_find(name);
    if (command) {
        help_print_command(command);
        return 0;
    }
    if (print_group(name))
        return 0;
    error_set(error, -EINVAL, "there is no command \"%s\"; firnctl help lists them all", name);
    return COMMAND_USAGE;
}

int run_version(const struct arguments *arguments, struct error *error)
{
    (void)arguments;
    (void)error;
    printf("firnctl %s\n", FIRN_VERSION);
    return 0;
}
