/*
 * firnctl sample: find the checkpoint and run `firn-worker sample`. If its files are on several
 * nodes, pass their places and the key for reading them in anonymous memory (memfd). The worker
 * returns its error in the same way; damage is noted in the checkpoint's record.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/read/source_text.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/checkpoint/record_change.h"
#include "ctl/command/commands.h"
#include "ctl/local/program_path.h"

#define WORDS_MAX 22

/* Pass the places on other nodes to the worker, through an inherited descriptor. */
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
        return error_set(error, status, "cannot pass the checkpoint to firn-worker: %s",
                         strerror(-status));
    }
    snprintf(ret_descriptor, 16, "%d", descriptor);
    return 0;
}

/* Run the worker and return its exit status; a signal is an error. */
static int run_worker(const char *program, const char *const *words, int *ret_code,
                      struct error *error)
{
    int how = 0;
    pid_t pid, self = getpid();

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == self)
            execv(program, (char *const *)(uintptr_t)words);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &how, 0) < 0)
        if (errno != EINTR)
            pid = -1;
    if (pid < 0)
        return error_set(error, -errno, "%s: %s", program, strerror(errno));
    if (WIFSIGNALED(how))
        return error_set(error, -EIO, "%s was ended by signal %d", program, WTERMSIG(how));
    *ret_code = WEXITSTATUS(how);
    if (*ret_code == 127)
        return error_set(error, -ENOEXEC, "%s cannot be run", program);
    return 0;
}

/* Read the worker's failure from @descriptor: its negative error and a message. */
static int read_failure(int descriptor, struct error *error)
{
    char text[ERROR_TEXT_SIZE] = "", *why;
    ssize_t size = pread(descriptor, text, sizeof(text) - 1, 0);
    long code = size > 0 ? strtol(text, &why, 10) : 0;

    if (code <= 0 || *why != '\n')
        return error_set(error, -EIO, "firn-worker sample failed without a message");
    return error_set(error, (int)-code, "%s", why + 1);
}

/* Run the worker, and record damage of the checkpoint. */
static int sample(const struct arguments *arguments, const struct checkpoint_place *place,
                  const char *program, const char **words, size_t count, struct error *error)
{
    CLEANUP(close_descriptor) int failure = memfd_create("firn-failure", 0);
    char descriptor[16];
    int code = 0;

    if (failure < 0)
        return error_set(error, -errno, "no memory for the worker's error message: %s",
                         strerror(errno));
    snprintf(descriptor, sizeof(descriptor), "%d", failure);
    words[count++] = "--failure";
    words[count] = descriptor;
    int status = run_worker(program, words, &code, error);
    if (status || !code)
        return status;
    if (code == COMMAND_USAGE) /* the worker has printed the error */
        return COMMAND_USAGE;
    status = read_failure(failure, error);
    if (status == -EBADMSG)
        record_note_damage(arguments, place, status, error->text);
    return status;
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
    return sample(arguments, &place, program, words, count, error);
}
