/*
 * firnctl sample: finds the checkpoint, then becomes `firn-worker sample`. Where its files lie on
 * several nodes, and under which key they give them away, goes along in memory that has no name.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/source_text.h"
#include "ctl/checkpoint_find.h"
#include "ctl/commands.h"
#include "ctl/program_path.h"

#define WORDS_MAX 20

/* What the worker wants to know of other nodes, behind a descriptor that it inherits. */
static int hand_over(const struct checkpoint_place *place, char ret_descriptor[16],
                     struct error *error)
{
    struct bytes text = {0};
    int descriptor = memfd_create("firn-checkpoint", 0);
    int status = descriptor < 0 ? -errno : 0;

    if (!status)
        status = source_text_encode(place->remote, place->manifest_sha256, &text);
    if (!status && write(descriptor, text.data, text.size_bytes) != (ssize_t)text.size_bytes)
        status = -EIO;
    if (!status && lseek(descriptor, 0, SEEK_SET) != 0)
        status = -errno;
    bytes_done(&text);
    if (status) {
        close_descriptor(&descriptor);
        return error_set(error, status, "handing the checkpoint's place over: %s",
                         strerror(-status));
    }
    snprintf(ret_descriptor, 16, "%d", descriptor);
    return 0;
}

int run_sample(const struct arguments *arguments, struct error *error)
{
    static const char *const passed[] = {"tokens", "temperature", "top-k", "seed"};
    static const char *const flags[] = {"--tokens", "--temperature", "--top-k", "--seed"};
    AUTO_FREE char *prompt = NULL;
    CLEANUP(checkpoint_place_done) struct checkpoint_place place = {0};
    char program[PROCESS_PATH_SIZE], descriptor[16];
    const char *words[WORDS_MAX] = {"firn-worker", "sample", place.path};
    size_t count = 3;

    if (!arguments_has(arguments, "prompt")) {
        error_set(error, -EINVAL, "sample wants --prompt TEXT");
        return COMMAND_USAGE;
    }
    int status = checkpoint_find(arguments, &place, error);
    if (!status)
        status = program_path_find("firn-worker", program, error);
    if (!status && place.remote)
        status = hand_over(&place, descriptor, error);
    if (status)
        return status;
    if (asprintf(&prompt, "--prompt=%s", arguments_text(arguments, "prompt", "")) < 0)
        return error_set(error, -ENOMEM, "no memory for the prompt");
    words[count++] = prompt;
    if (place.remote) {
        words[count++] = "--copies";
        words[count++] = descriptor;
    }
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
