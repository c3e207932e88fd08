/* A client's bytes to firnd's HTTP: over a real socket, through libmicrohttpd. For any input, the
 * answer is HTTP or the connection ends, and the next client is served. */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
#include "daemon/http/http_server.h"

#define TURNS_MAX  2000
#define IDLE_TURNS 3  /* of a millisecond at most */
#define GOOD_EVERY 64 /* inputs before a request that must be answered */
#define HALF_EVERY                                                                                 \
    16 /* inputs: then the client says that it has no more to send. The side that ends             \
        * first keeps its port for a minute, and 28,000 ports are all there are. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config config;
static struct daemon node;
static struct sockaddr_in address;

static void find_port(void)
{
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, size) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        abort();
    close(listener);
    snprintf(config.http, sizeof(config.http), "127.0.0.1:%u", ntohs(address.sin_port));
}

static void start(void)
{
    static const char lines[] = "{\"step\":1,\"unix_ns\":1}\n{\"step\":2,\"unix_ns\":2}\n";
    char path[CONFIG_TEXT_SIZE + 64];
    struct error error = {0};
    snprintf(config.data_dir, sizeof(config.data_dir), "/dev/shm/firn-fuzz-http-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/jobs/demo", config.data_dir);
    if (file_make_directories(path, 0755, &error))
        abort();
    strcat(path, "/metrics.jsonl");
    if (file_replace(path, lines, strlen(lines), 0644, &error))
        abort();
    strcpy(config.node, "node1");
    strcpy(config.http_names, "firn.example.org");
    node.config = &config;
    find_port();
    if (event_loop_init(&node.loop) || http_server_start(&node, &node.http, &error))
        abort();
}

static void turn(unsigned wait_us)
{
    if (sd_event_run(node.loop.event, wait_us) < 0)
        abort();
}

/* Return: a connected socket. It does not block: the fuzzer's alarm would end the call, and the
 * kernel may want the server to accept others first. */
static int reach(void)
{
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client < 0)
        abort();
    for (unsigned turns = 0;
         connect(client, (struct sockaddr *)&address, sizeof(address)) && errno != EISCONN;
         turns++) {
        if ((errno != EINPROGRESS && errno != EALREADY && errno != EINTR) || turns == TURNS_MAX)
            abort();
        turn(1000);
    }
    return client;
}

/* Read until the server has ended the connection, or has waited for more for a few turns. Return:
 * the status of its first answer; 0: none came */
static int hear(int client, unsigned idle_turns_max)
{
    char answer[4096];
    int status = 0;
    for (unsigned idle = 0; idle < idle_turns_max;) {
        ssize_t n = recv(client, answer, sizeof(answer), MSG_DONTWAIT);
        if (n > 0 && status == 0 && (n < 12 || memcmp(answer, "HTTP/1.", 7) != 0))
            abort();
        if (n > 0 && status == 0)
            status = (int)strtol(answer + 9, NULL, 10);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        idle = n > 0 ? 0 : idle + 1;
        if (n < 0)
            turn(1000);
    }
    return status;
}

/* @half: close the sending side after the data. Return: the status of the answer */
static int ask(const uint8_t *data, size_t size, bool half, unsigned idle_turns_max)
{
    const struct linger at_once = {.l_onoff = 1};
    int status = 0, client = reach();
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once,
               sizeof(at_once)); /* leaves no port behind */
    if (send(client, data, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size) {
        if (half)
            shutdown(client, SHUT_WR);
        status = hear(client, idle_turns_max);
    }
    close(client);
    turn(0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char good[] = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Connection: close\r\n\r\n";
    static unsigned count;
    if (!node.http)
        start();
    if (size > 32768)
        return 0;
    (void)ask(data, size, count % HALF_EVERY == 0, IDLE_TURNS);
    if (count++ % GOOD_EVERY == 0 &&
        ask((const uint8_t *)good, sizeof(good) - 1, false, TURNS_MAX) != 200)
        abort();
    return 0;
}
