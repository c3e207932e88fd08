#include "ctl/command/arguments.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/flag_value.h"
#include "elastic/job/edit_distance.h"

#define COMMAND_NAME_SIZE 64
#define FLAG_NAME_SIZE    64

/* Match "job submit" if that is a command, else one word such as "top". Return the number of
 * operands used. */
static unsigned match_command(struct arguments *arguments)
{
    char two[COMMAND_NAME_SIZE];

    if (arguments->operand_count >= 2) {
        snprintf(two, sizeof(two), "%s %s", arguments->operands[0], arguments->operands[1]);
        arguments->command = command_find(two);
        if (arguments->command)
            return 2;
    }
    if (arguments->operand_count >= 1)
        arguments->command = command_find(arguments->operands[0]);
    return arguments->command ? 1 : 0;
}

static const char *nearest_command(const char *written)
{
    const char *nearest = NULL;
    unsigned least = EDIT_DISTANCE_WORD_MAX;

    for (unsigned i = 0; i < command_count; i++) {
        unsigned distance = edit_distance(written, commands[i].name);
        if (distance < least && edit_distance_is_close(written, commands[i].name)) {
            least = distance;
            nearest = commands[i].name;
        }
    }
    return nearest;
}

/* List the commands of the group @word, "list, show, ..."; "" if there are none. */
static void subcommands(const char *word, char *ret_text, size_t size)
{
    size_t length = strlen(word), used = 0;

    ret_text[0] = '\0';
    for (unsigned i = 0; i < command_count; i++) {
        const char *name = commands[i].name;
        if (strncmp(name, word, length) || name[length] != ' ' || used >= size)
            continue;
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s", used ? ", " : "",
                                 name + length + 1);
    }
}

static int unknown_command(const struct arguments *arguments, struct error *error)
{
    char written[COMMAND_NAME_SIZE], known[256];
    const char *first = arguments->operands[0];
    const char *second = arguments->operand_count > 1 ? arguments->operands[1] : "";

    subcommands(first, known, sizeof(known));
    if (known[0] && !second[0])
        return error_set(error, -EINVAL, "%s needs a second word: %s", first, known);
    snprintf(written, sizeof(written), "%s%s%s", first, second[0] ? " " : "", second);
    const char *nearest = nearest_command(written);
    if (!nearest && !known[0]) { /* the second word may be an operand */
        snprintf(written, sizeof(written), "%s", first);
        nearest = nearest_command(written);
    }
    if (nearest)
        return error_set(error, -EINVAL, "there is no command \"%s\"; did you mean \"%s\"?",
                         written, nearest);
    if (known[0])
        return error_set(error, -EINVAL, "there is no command \"%s\"; for %s there is: %s", written,
                         first, known);
    return error_set(error, -EINVAL, "there is no command \"%s\"; firnctl help lists them all",
                     written);
}

static const char *nearest_flag(const struct command *command, const char *written)
{
    const struct flag *const *lists[] = {command->flags, command_global_flags};

    for (unsigned i = 0; i < ARRAY_COUNT(lists); i++)
        for (const struct flag *const *flag = lists[i]; *flag; flag++)
            if (edit_distance_is_close(written, (*flag)->name))
                return (*flag)->name;
    return NULL;
}

static int unknown_flag(const struct arguments *arguments, const char *name, struct error *error)
{
    if (!arguments->command)
        return error_set(error, -EINVAL, "there is no flag --%s; firnctl help lists them", name);
    const char *nearest = nearest_flag(arguments->command, name);
    if (nearest)
        return error_set(error, -EINVAL, "%s has no flag --%s; did you mean --%s?",
                         arguments->command->name, name, nearest);
    return error_set(error, -EINVAL, "%s has no flag --%s; firnctl help %s lists those it has",
                     arguments->command->name, name, arguments->command->name);
}

static int check_value(const struct flag *flag, const char *value, struct error *error)
{
    char *end;

    assert(value); /* only a switch has no value */
    if (flag->type == FLAG_TEXT && !value[0])
        return error_set(error, -EINVAL, "--%s is given without a value", flag->name);
    if (flag->type == FLAG_NUMBER) {
        errno = 0;
        unsigned long long number = strtoull(value, &end, 10);
        if (errno || end == value || *end || value[0] == '-' || (double)number < flag->min ||
            (double)number > flag->max)
            return error_set(error, -EINVAL, "--%s: \"%s\" is not a whole number from %.0f to %.0f",
                             flag->name, value, flag->min, flag->max);
    }
    if (flag->type == FLAG_REAL) {
        double number = strtod(value, &end);
        if (end == value || *end || !isfinite(number) || number < flag->min || number > flag->max)
            return error_set(error, -EINVAL, "--%s: \"%s\" is not a number from %g to %g",
                             flag->name, value, flag->min, flag->max);
    }
    return 0;
}

static int check_flags(struct arguments *arguments, struct error *error)
{
    for (unsigned i = 0; i < arguments->given_count; i++) {
        const char *name = arguments->given[i].flag->name;
        const struct flag *flag = command_flag(arguments->command, name);
        if (!flag)
            return unknown_flag(arguments, name, error);
        arguments->given[i].flag = flag;
        int status =
            flag->type == FLAG_SWITCH ? 0 : check_value(flag, arguments->given[i].value, error);
        if (status)
            return status;
    }
    return 0;
}

static int check_operands(const struct arguments *arguments, struct error *error)
{
    const struct command *command = arguments->command;

    if (arguments->operand_count < command->operands_min)
        return error_set(error, -EINVAL, "%s needs %s", command->name, command->operands);
    if (arguments->operand_count > command->operands_max)
        return error_set(error, -EINVAL, "%s: unexpected argument \"%s\"", command->name,
                         arguments->operands[command->operands_max]);
    return 0;
}

struct reader {
    int argc;
    const char *const *argv;
    int at;
    const char *unknown; /* the first unknown flag */
};

static int take_flag(struct reader *reader, struct arguments *arguments, struct error *error)
{
    const char *word = reader->argv[reader->at] + 2;
    const char *equals = strchr(word, '=');
    char name[FLAG_NAME_SIZE];

    snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - word) : (int)strlen(word), word);
    const struct flag *flag = command_any_flag(name);
    if (!flag) {
        if (!reader->unknown)
            reader->unknown = word;
        return 0;
    }
    if (arguments->given_count == ARGUMENTS_FLAGS_MAX)
        return error_set(error, -EINVAL, "more than %d flags", ARGUMENTS_FLAGS_MAX);
    const char *value = equals ? equals + 1 : NULL;
    if (flag->type == FLAG_SWITCH && value)
        return error_set(error, -EINVAL, "--%s takes no value", name);
    if (flag->type != FLAG_SWITCH && !value && ++reader->at < reader->argc) {
        value = reader->argv[reader->at];
        if (flag_value_is_flag(value))
            return error_set(
                error, -EINVAL,
                "--%s needs %s, but \"%s\" looks like a flag; write --%s=%s to use it as the value",
                name, flag->value, value, name, value);
    }
    if (flag->type != FLAG_SWITCH && !value)
        return error_set(error, -EINVAL, "--%s needs %s", name, flag->value);
    arguments->given[arguments->given_count].flag = flag;
    arguments->given[arguments->given_count++].value = value;
    return 0;
}

static int take_operand(const char *word, struct arguments *arguments, struct error *error)
{
    if (arguments->operand_count == ARGUMENTS_OPERANDS_MAX)
        return error_set(error, -EINVAL, "more than %d words", ARGUMENTS_OPERANDS_MAX);
    arguments->operands[arguments->operand_count++] = word;
    return 0;
}

static int read_words(struct reader *reader, struct arguments *arguments, struct error *error)
{
    bool flags_over = false;
    int status = 0;

    for (; reader->at < reader->argc && !status; reader->at++) {
        const char *word = reader->argv[reader->at];
        if (!flags_over && !strcmp(word, "--"))
            flags_over = true;
        else if (!flags_over && (!strcmp(word, "-h") || !strcmp(word, "--help")))
            arguments->help = true;
        else if (!flags_over && !strcmp(word, "--version")) /* as other programs call the command */
            status = take_operand("version", arguments, error);
        else if (!flags_over && !strncmp(word, "--", 2))
            status = take_flag(reader, arguments, error);
        else if (!flags_over && word[0] == '-' && word[1])
            status = error_set(error, -EINVAL, "\"%s\": a flag begins with two dashes", word);
        else
            status = take_operand(word, arguments, error);
    }
    return status;
}

static void drop_operands(struct arguments *arguments, unsigned count)
{
    arguments->operand_count -= count;
    memmove(arguments->operands, arguments->operands + count,
            arguments->operand_count * sizeof(arguments->operands[0]));
}

int arguments_parse(int argc, const char *const *argv, struct arguments *ret_arguments,
                    struct error *error)
{
    struct arguments arguments = {0};
    struct reader reader = {.argc = argc, .argv = argv};
    int status = read_words(&reader, &arguments, error);

    if (!status) {
        drop_operands(&arguments, match_command(&arguments));
        if (!arguments.command && arguments.operand_count > 0 && !arguments.help)
            status = unknown_command(&arguments, error);
        else if (reader.unknown && !arguments.help)
            status = unknown_flag(&arguments, reader.unknown, error);
    }
    if (!status && arguments.command && !arguments.help) {
        status = check_flags(&arguments, error);
        if (!status)
            status = check_operands(&arguments, error);
    }
    *ret_arguments = arguments; /* also on failure: main refers to the command's help */
    return status;
}

const char *arguments_each(const struct arguments *arguments, const char *flag, unsigned index)
{
    for (unsigned i = 0; i < arguments->given_count; i++)
        if (!strcmp(arguments->given[i].flag->name, flag) && index-- == 0)
            return arguments->given[i].value ? arguments->given[i].value : "";
    return NULL;
}

bool arguments_has(const struct arguments *arguments, const char *flag)
{
    return arguments_each(arguments, flag, 0);
}

const char *arguments_text(const struct arguments *arguments, const char *flag,
                           const char *otherwise)
{
    const char *value = otherwise;

    for (unsigned i = 0; i < arguments->given_count; i++)
        if (!strcmp(arguments->given[i].flag->name, flag))
            value = arguments->given[i].value;
    return value;
}

uint64_t arguments_number(const struct arguments *arguments, const char *flag, uint64_t otherwise)
{
    const char *text = arguments_text(arguments, flag, NULL);

    return text ? strtoull(text, NULL, 10) : otherwise;
}
