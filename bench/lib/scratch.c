#include "bench/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/lib/measure.h"

#define DEPTH_MAX 16 /* folders that nftw() keeps open */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

/* Remove the folder when the benchmark has ended. Ctrl-C and `timeout` reach the whole process
 * group, and the janitor has to survive them. No process writes to the pipe: the read returns when
 * no process has the other end open. The janitor closes all other descriptors, so that no reader of
 * them waits for it. */
static void run_janitor(const char *path, int lifeline)
{
    char byte;

    if (dup2(lifeline, STDIN_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0U, 0))
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(nftw(path, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS) ? 1 : 0);
}

void scratch_open(struct scratch *ret_scratch, const char *base, const char *prefix)
{
    int ends[2];

    if (!base)
        base = getenv("TMPDIR");
    if (!base)
        base = "/tmp";
    if (snprintf(ret_scratch->path, sizeof(ret_scratch->path), "%s/%s-XXXXXX", base, prefix) >=
        (int)sizeof(ret_scratch->path))
        measure_die("%s: the path is too long", base);
    if (!mkdtemp(ret_scratch->path))
        measure_die("no folder below %s: %s", base, strerror(errno));
    if (pipe2(ends, O_CLOEXEC))
        measure_die("no pipe: %s", strerror(errno));
    fflush(NULL);
    ret_scratch->janitor = fork();
    if (ret_scratch->janitor < 0)
        measure_die("fork: %s", strerror(errno));
    if (ret_scratch->janitor == 0)
        run_janitor(ret_scratch->path, ends[0]);
    close(ends[0]);
    ret_scratch->lifeline = ends[1];
}

void scratch_close(struct scratch *scratch)
{
    int status = 0;

    close(scratch->lifeline);
    while (waitpid(scratch->janitor, &status, 0) < 0 && errno == EINTR)
        ;
    if (status)
        fprintf(stderr, "%s is left behind\n", scratch->path);
}
