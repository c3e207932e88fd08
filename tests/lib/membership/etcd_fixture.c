#include "lib/membership/etcd_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define ETCD_FIXTURE_START_NS (30 * NS_PER_SECOND)

bool etcd_fixture_available(void)
{
    return access(ETCD_FIXTURE_PROGRAM, X_OK) == 0;
}

static struct sockaddr_in etcd_fixture_address(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/*
 * Reserve @port among tests, even while its member is dead: by a name that the kernel gives to one
 * process and takes back when the process ends.
 */
static bool etcd_fixture_reserve(unsigned port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "firn-test-port-%u", port);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(descriptor, (struct sockaddr *)&name, size) == 0)
        return true; /* stays open */
    close(descriptor);
    return false;
}

unsigned etcd_fixture_free_port(void)
{
    for (;;) {
        uint16_t number;
        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
            continue;
        unsigned port = 16000 + number % 16000;
        struct sockaddr_in address = etcd_fixture_address(port);
        int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int status = bind(descriptor, (struct sockaddr *)&address, sizeof(address));
        close(descriptor);
        if (status == 0 && etcd_fixture_reserve(port))
            return port;
    }
}

void etcd_fixture_url(unsigned port, char text[ETCD_FIXTURE_TEXT_SIZE])
{
    snprintf(text, ETCD_FIXTURE_TEXT_SIZE, "http://127.0.0.1:%u", port);
}

static void etcd_fixture_client_url(const struct etcd_fixture *fixture, unsigned member,
                                    char text[ETCD_FIXTURE_TEXT_SIZE])
{
    snprintf(text, ETCD_FIXTURE_TEXT_SIZE, "http%s://127.0.0.1:%u", fixture->tls ? "s" : "",
             fixture->members[member].client_port);
}

void etcd_fixture_file(const struct etcd_fixture *fixture, const char *name,
                       char text[ETCD_FIXTURE_TEXT_SIZE])
{
    snprintf(text, ETCD_FIXTURE_TEXT_SIZE, "%s/%s", fixture->folder, name);
}

void etcd_fixture_endpoints(const struct etcd_fixture *fixture, char text[ETCD_FIXTURE_TEXT_SIZE])
{
    size_t length = 0;
    for (unsigned i = 0; i < fixture->member_count; i++) {
        char url[ETCD_FIXTURE_TEXT_SIZE];
        etcd_fixture_client_url(fixture, i, url);
        length += (size_t)snprintf(text + length, ETCD_FIXTURE_TEXT_SIZE - length, "%s%.64s",
                                   i > 0 ? "," : "", url);
    }
}

/* Become etcd, in the child. */
static void etcd_fixture_exec(const struct etcd_fixture *fixture, unsigned member)
{
    char name[16], data[128], log[128], cluster[ETCD_FIXTURE_TEXT_SIZE] = "";
    char client[ETCD_FIXTURE_TEXT_SIZE], peer[ETCD_FIXTURE_TEXT_SIZE];
    char health[ETCD_FIXTURE_TEXT_SIZE], ca[ETCD_FIXTURE_TEXT_SIZE];
    char certificate[ETCD_FIXTURE_TEXT_SIZE], key[ETCD_FIXTURE_TEXT_SIZE];
    size_t length = 0;
    for (unsigned i = 0; i < fixture->member_count; i++)
        length += (size_t)snprintf(cluster + length, sizeof(cluster) - length,
                                   "%sm%u=http://127.0.0.1:%u", i > 0 ? "," : "", i,
                                   fixture->members[i].peer_port);
    bool alone =
        fixture->member_count == 1; /* no other member can win an election on a busy machine */
    snprintf(name, sizeof(name), "m%u", member);
    snprintf(data, sizeof(data), "%s/%s", fixture->folder, name);
    snprintf(log, sizeof(log), "%s/%s.log", fixture->folder, name);
    etcd_fixture_client_url(fixture, member, client);
    etcd_fixture_url(fixture->members[member].peer_port, peer);
    etcd_fixture_url(fixture->members[member].health_port, health);
    etcd_fixture_file(fixture, "ca.pem", ca);
    etcd_fixture_file(fixture, "server.pem", certificate);
    etcd_fixture_file(fixture, "server.key", key);
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *last = fixture->tls ? "--client-cert-auth" : NULL;
    /* Hash passwords as cheaply as possible: a busy machine takes seconds at the usual cost. */
    execl(ETCD_FIXTURE_PROGRAM, "etcd", "--name", name, "--data-dir", data, "--unsafe-no-fsync",
          "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
          peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
          "--initial-cluster-token", fixture->folder, "--listen-metrics-urls", health,
          "--heartbeat-interval", alone ? "10" : "50", "--election-timeout", alone ? "100" : "500",
          "--log-level", "warn", "--bcrypt-cost", "4", last, "--trusted-ca-file", ca, "--cert-file",
          certificate, "--key-file", key, (char *)NULL);
    _exit(127);
}

void etcd_fixture_launch(struct etcd_fixture *fixture, unsigned member)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        etcd_fixture_exec(fixture, member);
    fixture->members[member].pid = pid;
}

void etcd_fixture_kill(struct etcd_fixture *fixture, unsigned member)
{
    pid_t pid = fixture->members[member].pid;
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    fixture->members[member].pid = 0;
}

void etcd_fixture_pause(const struct etcd_fixture *fixture, unsigned member)
{
    int status;
    kill(fixture->members[member].pid, SIGSTOP);
    /* The member may answer until all its threads have stopped. */
    while (waitpid(fixture->members[member].pid, &status, WUNTRACED) < 0 && errno == EINTR)
        continue;
}

void etcd_fixture_continue(const struct etcd_fixture *fixture, unsigned member)
{
    kill(fixture->members[member].pid, SIGCONT);
}

/* Send one GET /health; etcd answers true after a read that needs the quorum. */
static bool etcd_fixture_healthy(const struct etcd_fixture *fixture, unsigned member)
{
    static const char question[] = "GET /health HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = etcd_fixture_address(fixture->members[member].health_port);
    struct timeval limit = {.tv_usec = 250000}; /* etcd waits a whole second if asked too early */
    char answer[1024] = "";
    size_t length = 0;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(descriptor, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(descriptor, question, sizeof(question) - 1, MSG_NOSIGNAL) > 0) {
        for (ssize_t n; length < sizeof(answer) - 1; length += (size_t)n) {
            n = recv(descriptor, answer + length, sizeof(answer) - 1 - length, 0);
            if (n <= 0)
                break;
        }
    }
    close(descriptor);
    return strstr(answer, "{\"health\":\"true\"}");
}

bool etcd_fixture_wait(struct etcd_fixture *fixture, unsigned member)
{
    uint64_t deadline_ns = clock_monotonic_ns() + ETCD_FIXTURE_START_NS;
    while (clock_monotonic_ns() < deadline_ns) {
        if (etcd_fixture_healthy(fixture, member))
            return true;
        if (waitpid(fixture->members[member].pid, NULL, WNOHANG) != 0) {
            fixture->members[member].pid = 0;
            return false;
        }
        poll(NULL, 0, 10); /* between two looks */
    }
    return false;
}

int etcd_fixture_remove(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void)status, (void)type, (void)position;
    return remove(path);
}

void etcd_fixture_stop(struct etcd_fixture *fixture)
{
    for (unsigned i = 0; i < fixture->member_count; i++)
        etcd_fixture_kill(fixture, i);
    if (fixture->folder[0] != '\0')
        nftw(fixture->folder, etcd_fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    *fixture = (struct etcd_fixture){0};
}

/* Make an authority, and its certificates for the server and for a client. */
static bool etcd_fixture_certify(const struct etcd_fixture *fixture)
{
    char command[2048];
    snprintf(command, sizeof(command),
             "cd %s && exec >certify.log 2>&1 && "
             "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca "
             "-keyout ca.key -out ca.pem && "
             "printf 'subjectAltName=IP:127.0.0.1\\n' >names && "
             "for who in server client; do "
             "openssl req -newkey rsa:2048 -nodes -subj /CN=$who -keyout $who.key -out $who.csr && "
             "openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
             "-extfile names -out $who.pem || exit 1; done",
             fixture->folder);
    return system(command) == 0;
}

static bool etcd_fixture_try(struct etcd_fixture *fixture, unsigned member_count, bool tls)
{
    *fixture = (struct etcd_fixture){
        .folder = "/tmp/firn-etcd-XXXXXX", .member_count = member_count, .tls = tls};
    if (!mkdtemp(fixture->folder)) {
        fixture->folder[0] = '\0';
        return false;
    }
    if (tls && !etcd_fixture_certify(fixture))
        return false;
    for (unsigned i = 0; i < member_count; i++) {
        fixture->members[i].client_port = etcd_fixture_free_port();
        fixture->members[i].peer_port = etcd_fixture_free_port();
        fixture->members[i].health_port = etcd_fixture_free_port();
    }
    for (unsigned i = 0; i < member_count; i++)
        etcd_fixture_launch(fixture, i);
    for (unsigned i = 0; i < member_count; i++) {
        if (!etcd_fixture_wait(fixture, i))
            return false;
    }
    return true;
}

static bool etcd_fixture_start_any(struct etcd_fixture *fixture, unsigned member_count, bool tls)
{
    for (unsigned attempt = 0; attempt < 3; attempt++) { /* a port may be taken meanwhile */
        if (etcd_fixture_try(fixture, member_count, tls))
            return true;
        etcd_fixture_stop(fixture);
    }
    return false;
}

bool etcd_fixture_start(struct etcd_fixture *fixture, unsigned member_count)
{
    return etcd_fixture_start_any(fixture, member_count, false);
}

bool etcd_fixture_start_tls(struct etcd_fixture *fixture)
{
    return etcd_fixture_start_any(fixture, 1, true);
}
