#include "lib/checkpoint/file_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void file_server_say(int connection, int code, const void *body, size_t size_bytes)
{
    char head[160];
    int length = snprintf(head, sizeof(head),
                          "HTTP/1.1 %d x\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", code,
                          size_bytes);
    if (send(connection, head, (size_t)length, MSG_NOSIGNAL) == length && size_bytes > 0)
        (void)!send(connection, body, size_bytes, MSG_NOSIGNAL);
}

static bool take_one(atomic_uint *count)
{
    unsigned left = atomic_load(count);
    while (left > 0 && !atomic_compare_exchange_weak(count, &left, left - 1))
        ;
    return left > 0;
}

static void file_server_answer(struct file_server *server, int connection, const char *request)
{
    char job[64], folder[64], file[128], proof[80] = "", path[512];
    char at_digits[20], size_digits[20];
    const char *header = strstr(request, CHECKPOINT_PROOF_HEADER ": ");
    if (header)
        sscanf(header, CHECKPOINT_PROOF_HEADER ": %79[0-9a-f]", proof);
    if (sscanf(request,
               "GET /v1/jobs/%63[^/]/checkpoints/%63[^/]/%127[^?]?at=%19[0-9]&bytes=%19[0-9]", job,
               folder, file, at_digits, size_digits) != 5 ||
        strtoull(size_digits, NULL, 10) > CHECKPOINT_REMOTE_MAX) {
        file_server_say(connection, 400, "what?\n", 6);
        return;
    }
    uint64_t at = strtoull(at_digits, NULL, 10), size = strtoull(size_digits, NULL, 10);
    const struct checkpoint_range range = {job, folder, file, at, size};
    if (!checkpoint_proof_valid(server->key, &range, proof) || take_one(&server->refuses)) {
        file_server_say(connection, 403, "no\n", 3);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s/%s", server->folder, folder, file);
    int descriptor = open(path, O_RDONLY);
    uint8_t *data = server->buffer;
    ssize_t n = descriptor >= 0 ? pread(descriptor, data, size, (off_t)at) : -1;
    if (n > 0 && strstr(file, ".safetensors") && !strstr(file, ".json") && take_one(&server->flips))
        data[n / 2] ^= 4;
    size_t seal = n >= 0 && checkpoint_is_sealed(folder) ? CHECKPOINT_SEAL_SIZE : 0;
    if (seal)
        checkpoint_seal(server->key, proof, data, (size_t)n, data + n);
    if (seal && take_one(&server->flips))
        data[n / 2] ^= 4;
    file_server_say(connection, n < 0 ? 404 : 200, n < 0 ? (const void *)"none\n" : data,
                    n < 0 ? 5 : (size_t)n + seal);
    atomic_fetch_add(&server->bytes, n > 0 ? (unsigned long long)n : 0);
    if (descriptor >= 0)
        close(descriptor);
}

static void *file_server_run(void *argument)
{
    struct file_server *server = argument;
    int connection;
    while ((connection = accept(server->listener, NULL, NULL)) >= 0) {
        char request[2048];
        size_t size = 0;
        ssize_t n;
        request[0] = '\0';
        while (!strstr(request, "\r\n\r\n") && size < sizeof(request) - 1 &&
               (n = recv(connection, request + size, sizeof(request) - 1 - size, 0)) > 0)
            request[size += (size_t)n] = '\0';
        atomic_fetch_add(&server->requests, 1);
        file_server_answer(server, connection, request);
        close(connection);
    }
    return NULL;
}

void file_server_start(struct file_server *server, const char *name, const char *folder)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    memset(server, 0, sizeof(*server));
    memset(server->key, 7, sizeof(server->key));
    snprintf(server->folder, sizeof(server->folder), "%s", folder);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->buffer = malloc(CHECKPOINT_REMOTE_MAX + CHECKPOINT_SEAL_SIZE);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(bind(server->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    assert(listen(server->listener, 64) == 0);
    assert(getsockname(server->listener, (struct sockaddr *)&address, &length) == 0);
    snprintf(server->node.name, sizeof(server->node.name), "%s", name);
    snprintf(server->node.http, sizeof(server->node.http), "127.0.0.1:%u", ntohs(address.sin_port));
    assert(pthread_create(&server->thread, NULL, file_server_run, server) == 0);
}

void file_server_stop(struct file_server *server)
{
    if (server->listener < 0)
        return;
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    free(server->buffer);
    server->listener = -1;
}
