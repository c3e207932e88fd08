/* firn-worker: drive one slot for one job, started by firnd; also sample text from checkpoints. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mapped_blocks.h"
#include "base/secrecy.h"
#include "comm/mesh/frame.h"
#include "kernels/backend.h"
#include "kernels/openblas_core.h"
#include "worker/device/slot_benchmark.h"
#include "worker/session/sample.h"
#include "worker/session/trainer.h"

#define MAPPED_BYTES                                                                               \
    ((size_t)1 << 20) /* units, and messages whose copy costs more than their pages */

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Run the program again if needed: OpenBLAS chose its kernels when it was loaded, before main(). */
static void begin_with_better_core(char **argv)
{
    const char *core = openblas_core_better();

    (void)prctl(PR_SET_NAME, "firn-worker"); /* else "exe" after execv() */
    if (!core || setenv(OPENBLAS_CORE_VARIABLE, core, 1))
        return;
    execv("/proc/self/exe", argv);
    fprintf(stderr, "firn-worker: OpenBLAS stays slow, for /proc/self/exe cannot be run: %s\n",
            strerror(errno));
    unsetenv(OPENBLAS_CORE_VARIABLE);
}

static int train(int argc, char **argv)
{
    struct worker_options options;
    struct error error = {0};
    char prefix[NAME_SIZE + 32];
    int status = worker_options_parse(argc, argv, &options, &error);

    if (status == 1)
        return EXIT_DONE;
    if (status) {
        fprintf(stderr, "firn-worker: %s\n", error.text);
        return EXIT_USAGE;
    }
    snprintf(prefix, sizeof(prefix), "worker %s/%u", options.node, options.slot);
    log_set_prefix(prefix);
    status = trainer_run(&options, &error);
    if (status && status != -ECANCELED) {
        log_error("%s", error.text);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

/* Print this program's numerics on @device, for firnd, which never links a kernel. */
static int identify(const char *device)
{
    bool cuda = !strncmp(device, "cuda", 4) && (!device[4] || device[4] == ':');
    char text[128], remark[OPENBLAS_CORE_REMARK_SIZE];
    struct error error = {0};

    if (cuda && device[4]) /* make it the only GPU that the driver shows */
        setenv("CUDA_VISIBLE_DEVICES", device + 5, 1);
    int status = cuda || !strcmp(device, "cpu")
                     ? kernel_backend_identity(cuda ? KERNEL_BACKEND_CUDA : KERNEL_BACKEND_CPU,
                                               text, sizeof(text), &error)
                     : error_set(&error, -EINVAL, "it drives cpu and cuda slots, no %.32s", device);

    if (status) {
        fprintf(stderr, "firn-worker: %s\n", error.text);
        return EXIT_FAILED;
    }
    if (!cuda && openblas_core_remark(remark, sizeof(remark)))
        fprintf(stderr, "firn-worker: warning: %s\n", remark);
    return puts(text) < 0 || fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

/* Print the link protocol of the workers that firnd starts, for firnd, which registers it. */
static int tell_protocol(void)
{
    return printf("%u\n", frame_version()) < 0 || fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int main(int argc, char **argv)
{
    begin_with_better_core(argv);
    mapped_blocks_from(MAPPED_BYTES);
    signal(SIGPIPE, SIG_IGN);
    secrecy_guard_process();
    if (argc == 3 && !strcmp(argv[1], "identity"))
        return identify(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "protocol") && !strcmp(argv[2], "links"))
        return tell_protocol();
    if (argc == 3 && !strcmp(argv[1], "rates"))
        return slot_benchmark_main(argv[2]);
    if (argc > 1 && !strcmp(argv[1], "sample"))
        return sample_main(argc - 1, argv + 1);
    return train(argc, argv);
}
