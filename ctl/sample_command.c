/* firnctl sample: finds the checkpoint, then becomes `firn-worker sample`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/checkpoint_find.h"
#include "ctl/commands.h"
#include "ctl/program_path.h"

#define WORDS_MAX 20

int run_sample(const struct arguments *arguments, struct error *error)
{
    static const char *const passed[] = {"prompt", "tokens", "temperature", "top-k", "seed"};
    static const char *const flags[] = {"--prompt", "--tokens", "--temperature", "--top-k",
                                        "--seed"};
    struct checkpoint_place place;
    char program[PROCESS_PATH_SIZE];
    const char *words[WORDS_MAX] = {"firn-worker", "sample", place.path};
    size_t count = 3;

    if (!arguments_has(arguments, "prompt")) {
        error_set(error, -EINVAL, "sample wants --prompt TEXT");
        return COMMAND_USAGE;
    }
    int status = checkpoint_find(arguments, &place, error);
    if (!status)
        status = checkpoint_place_refuse(&place, "sample", error);
    if (!status)
        status = program_path_find("firn-worker", program, error);
    if (status)
        return status;
    for (size_t i = 0; i < ARRAY_COUNT(passed); i++) {
        if (!arguments_has(arguments, passed[i]))
            continue;
        words[count++] = flags[i];
        words[count++] = arguments_text(arguments, passed[i], "");
    }
    fflush(stdout);
    execv(program, (char *const *)(uintptr_t)words);
    return error_set(error, -errno, "%s: %s", program, strerror(errno));
}
