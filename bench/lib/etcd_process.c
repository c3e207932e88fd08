#include "bench/lib/etcd_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/lib/measure.h"
#include "membership/transport/http.h"

#define PROGRAM     "/usr/bin/etcd"
#define ANSWER_NS   (10 * NS_PER_SECOND)
#define RECEIVED    "grpc_server_msg_received_total"
#define BACKEND_MAX "8589934592" /* bytes of history */

/* Return a port that is free now. The kernel does not give it out again soon. */
static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(descriptor, (struct sockaddr *)&address, size) ||
        getsockname(descriptor, (struct sockaddr *)&address, &size))
        measure_die("no free port: %s", strerror(errno));
    close(descriptor);
    return ntohs(address.sin_port);
}

void etcd_process_start(struct etcd_process *ret_etcd)
{
    char peer[64], cluster[80], log[sizeof(ret_etcd->scratch.path) + 8];

    if (access(PROGRAM, X_OK))
        measure_die("%s: %s", PROGRAM, strerror(errno));
    scratch_open(&ret_etcd->scratch, NULL, "firn-etcd");
    snprintf(ret_etcd->url, sizeof(ret_etcd->url), "http://127.0.0.1:%u", free_port());
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", free_port());
    snprintf(cluster, sizeof(cluster), "default=%s", peer);
    snprintf(log, sizeof(log), "%s/log", ret_etcd->scratch.path);
    fflush(NULL);
    pid_t benchmark = getpid();
    ret_etcd->pid = fork();
    if (ret_etcd->pid < 0)
        measure_die("fork: %s", strerror(errno));
    if (ret_etcd->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != benchmark)
        _exit(1); /* the parent has ended already */
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(PROGRAM, "etcd", "--data-dir", ret_etcd->scratch.path, "--listen-client-urls",
          ret_etcd->url, "--advertise-client-urls", ret_etcd->url, "--listen-peer-urls", peer,
          "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
          "--quota-backend-bytes", BACKEND_MAX, "--log-level", "warn", (char *)NULL);
    _exit(127);
}

void etcd_process_stop(struct etcd_process *etcd)
{
    kill(etcd->pid, SIGKILL);
    while (waitpid(etcd->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    scratch_close(&etcd->scratch);
}

/* ---- counters ---- */

struct page {
    bool done;
    struct etcd_counters *counters;
};

/* Return the sum of the values of all lines "name{...} value" and "name value". With @label, count
 * only lines with @label in their braces. */
static double sum_of(const char *text, const char *name, const char *label)
{
    size_t length = strlen(name);
    double sum = 0;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == '{')) {
            size_t end = strcspn(line, "\n"), at = end;
            if (label && !memmem(line, end, label, strlen(label)))
                continue;
            while (at > 0 && line[at - 1] != ' ')
                at--;
            sum += strtod(line + at, NULL);
        }
    }
    return sum;
}

static void on_page(void *context, const struct http_answer *answer)
{
    struct page *page = context;
    const char *text = (const char *)answer->body;

    page->done = true;
    if (answer->status || answer->code != 200)
        return;
    page->counters->proposals = sum_of(text, "etcd_server_proposals_applied_total", NULL);
    page->counters->sent_bytes = sum_of(text, "etcd_network_client_grpc_sent_bytes_total", NULL);
    page->counters->requests = sum_of(text, RECEIVED, NULL);
    page->counters->keep_alives = sum_of(text, RECEIVED, "\"LeaseKeepAlive\"");
    page->counters->questions = sum_of(text, RECEIVED, "\"etcdserverpb.Watch\"");
}

struct etcd_counters etcd_process_counters(const struct etcd_process *etcd, struct poll_loop *loop)
{
    struct etcd_counters counters = {0};
    struct page page = {.counters = &counters};
    struct http_client *client;
    struct http_request *request;
    char url[96];

    snprintf(url, sizeof(url), "%s/metrics", etcd->url);
    if (http_client_new(poll_loop_table(loop), &client) ||
        http_get(client, url, ANSWER_NS, NULL, on_page, &page, &request) ||
        poll_loop_run(loop, &page.done, clock_monotonic_ns() + ANSWER_NS))
        measure_die("etcd does not tell its counters");
    http_client_free(client);
    return counters;
}

/* Return the number after @skip blanks. proc(5): one blank separates two fields. */
static unsigned long field(const char *fields, unsigned skip)
{
    while (fields && skip-- > 0)
        fields = strchr(fields, ' ') ? strchr(fields, ' ') + 1 : NULL;
    return fields ? strtoul(fields, NULL, 10) : 0;
}

double process_cpu(pid_t pid)
{
    char path[64], line[1024];
    unsigned long ticks = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof(line), file)) {
        const char *fields = strrchr(line, ')'); /* end of field 2; utime, stime: fields 14, 15 */
        ticks = field(fields, 12) + field(fields, 13);
    }
    if (file)
        fclose(file);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double process_memory(pid_t pid, const char *name)
{
    char path[64], line[256];
    unsigned long kib = 0;
    size_t length = strlen(name);

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && kib == 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            kib = strtoul(line + length + 1, NULL, 10);
    if (file)
        fclose(file);
    return 1024.0 * (double)kib;
}
