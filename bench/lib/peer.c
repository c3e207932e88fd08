#include "bench/lib/peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/lib/measure.h"

struct peer {
    pid_t pid;
    FILE *to, *from;
    char name[128];
};

static void run_child(const char *const *argv, const int to[2], const int from[2])
{
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    close(to[1]);
    close(from[0]);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static struct peer *adopt(pid_t pid, int to, int from)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        measure_die("no memory for a peer");
    peer->pid = pid;
    peer->to = fdopen(to, "w");
    peer->from = fdopen(from, "r");
    if (!peer->to || !peer->from)
        measure_die("no memory for a peer's pipes");
    return peer;
}

struct peer *peer_start(const char *const *argv)
{
    int to[2], from[2];

    if (pipe(to) || pipe(from))
        measure_die("no pipes for %s", argv[0]);
    pid_t pid = fork();
    if (pid == 0)
        run_child(argv, to, from);
    close(to[0]);
    close(from[1]);
    if (pid < 0)
        measure_die("no process for %s", argv[0]);
    signal(SIGPIPE, SIG_IGN);
    struct peer *peer = adopt(pid, to[1], from[0]);
    if (!fgets(peer->name, sizeof(peer->name), peer->from)) {
        peer_stop(peer);
        return NULL;
    }
    peer->name[strcspn(peer->name, "\n")] = '\0';
    return peer;
}

void peer_stop(struct peer *peer)
{
    if (!peer)
        return;
    fclose(peer->to); /* the child sees the end of its input */
    fclose(peer->from);
    waitpid(peer->pid, NULL, 0);
    free(peer);
}

const char *peer_name(const struct peer *peer)
{
    return peer->name;
}

unsigned peer_numbers(struct peer *peer, double *ret_numbers, unsigned count)
{
    char answer[128], *at = answer;
    unsigned found = 0;

    if (fputs("step\n", peer->to) < 0 || fflush(peer->to) ||
        !fgets(answer, sizeof(answer), peer->from))
        return 0;
    while (found < count) {
        char *end;
        ret_numbers[found] = strtod(at, &end);
        if (end == at)
            break;
        at = end;
        found++;
    }
    return found;
}

double peer_step(struct peer *peer)
{
    double seconds;

    return peer_numbers(peer, &seconds, 1) == 1 ? seconds : -1.0;
}
