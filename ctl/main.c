/* firnctl: the command line tool of a firn cluster. The table of commands is
 * ctl/command_table.c. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ctl/command/arguments.h"
#include "ctl/help.h"
#include "ctl/view/output.h"
#include "ctl/view/terminal.h"

#define OUTPUT_BYTES ((size_t)1 << 16)

static int complain(const struct arguments *arguments, int status, const struct error *error)
{
    bool usage = status == COMMAND_USAGE;

    fflush(stdout);
    if (error->text[0])
        fprintf(stderr, "firnctl: %s\n", error->text);
    else if (status < 0)
        fprintf(stderr, "firnctl: %s\n", strerror(-status));
    if (usage && arguments->command)
        fprintf(stderr, "See: firnctl help %s\n", arguments->command->name);
    return status < 0 ? COMMAND_FAILED : status;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct error error = {0};

    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows up as an error of the output */
    if (terminal_is_live())
        setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES); /* show a picture at once, not line by line */
    log_set_prefix("firnctl");
    log_set_level(LOG_LEVEL_ERROR);
    if (arguments_parse(argc - 1, (const char *const *)(uintptr_t)(argv + 1), &arguments, &error))
        return complain(&arguments, COMMAND_USAGE, &error);
    if (!arguments.command || arguments.help) {
        if (arguments.command)
            help_print_command(arguments.command);
        else
            help_print_all();
        return arguments.help ? COMMAND_DONE : COMMAND_USAGE;
    }
    int status = arguments.command->run(&arguments, &error);
    if (!status)
        status = output_flush(&error);
    if (status == -EPIPE) /* `firnctl ... | head` has seen enough */
        return COMMAND_FAILED;
    return status ? complain(&arguments, status, &error) : COMMAND_DONE;
}
