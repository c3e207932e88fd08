/*
 * Tests of firnd's HTTP over TLS with the client of the nodes: large answers arrive whole, several
 * at a time; a certificate of another authority is refused before any data are sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/http_url.h"
#include "checkpoint/remote/remote.h"
#include "daemon/core/daemon.h"
#include "daemon/http/http_server.h"
#include "daemon/jobs/job.h"
#include "membership/transport/http.h"

#define KEY             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define FOLDER          "step-0000000040"
#define FILE_NAME       "manifest.json"
#define REQUESTS        6
#define RANGES          12
#define STALL_NS        (100 * NS_PER_MS)
#define WAIT_NS         (30 * NS_PER_SECOND)
#define TOKEN           "0123456789abcdef"
#define HAS_OPENSSL     (access("/usr/bin/openssl", X_OK) == 0)
#define FILE_BYTES      CHECKPOINT_REMOTE_MAX
#define URL_TEXT_SIZE   256
#define PROOF_TEXT_SIZE 256

struct node {
    struct config config;
    struct daemon daemon;
    struct job job;
    struct plan plan;
    struct http_client *client;
    uint8_t *content; /* of the file */
    char authorities[CONFIG_TEXT_SIZE + 16];
};

static void take_port(struct config *config)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    close(listener);
    snprintf(config->http, sizeof(config->http), "127.0.0.1:%u", ntohs(address.sin_port));
}

static void make_certificates(const char *folder)
{
    char command[1024];

    snprintf(command, sizeof(command),
             "cd %.400s && exec >certify.log 2>&1 && for name in node other; do "
             "openssl ecparam -name prime256v1 -genkey -noout -out $name.key && "
             "openssl req -x509 -key $name.key -days 2 -subj /CN=$name "
             "-addext subjectAltName=IP:127.0.0.1 -out $name.pem || exit 1; done",
             folder);
    assert_int_equal(system(command), 0);
}

static void make_file(struct node *node)
{
    char path[sizeof(node->job.folders.checkpoint_dir) + 64];

    node->content = malloc(FILE_BYTES);
    assert_non_null(node->content);
    for (size_t i = 0; i < FILE_BYTES; i++)
        node->content[i] = (uint8_t)(i * 2654435761u >> 13);
    snprintf(path, sizeof(path), "%s/" FOLDER, node->job.folders.checkpoint_dir);
    assert_int_equal(file_make_directories(path, 0755, NULL), 0);
    strcat(path, "/" FILE_NAME);
    assert_int_equal(file_replace(path, node->content, FILE_BYTES, 0644, NULL), 0);
}

static int begin(void **state)
{
    struct node *node = calloc(1, sizeof(*node));
    struct config *config = &node->config;
    struct error error = {0};

    *state = node;
    if (!HAS_OPENSSL)
        return 0;
    strcpy(config->data_dir, "/tmp/firn-https-XXXXXX");
    assert_non_null(mkdtemp(config->data_dir));
    make_certificates(config->data_dir);
    snprintf(config->http_certificate, CONFIG_TEXT_SIZE, "%.400s/node.pem", config->data_dir);
    snprintf(config->http_key, CONFIG_TEXT_SIZE, "%.400s/node.key", config->data_dir);
    strcpy(config->node, "node1");
    node->daemon.config = config;
    strcpy(node->daemon.http_token, TOKEN);
    strcpy(node->plan.links.key, KEY);
    strcpy(node->job.name, "demo");
    snprintf(node->job.folders.checkpoint_dir, sizeof(node->job.folders.checkpoint_dir),
             "%.400s/demo", config->data_dir);
    node->job.plans.plan = &node->plan;
    node->daemon.jobs = &node->job;
    make_file(node);
    assert_int_equal(event_loop_init(&node->daemon.loop), 0);
    take_port(config);
    if (http_server_start(&node->daemon, &node->daemon.http, &error))
        fail_msg("%s", error.text);
    assert_int_equal(http_client_new(&node->daemon.loop.loop, &node->client), 0);
    return 0;
}

static int end(void **state)
{
    struct node *node = *state;
    char command[CONFIG_TEXT_SIZE + 16];

    if (HAS_OPENSSL) {
        http_client_free(node->client);
        http_server_stop(node->daemon.http);
        event_loop_done(&node->daemon.loop);
        snprintf(command, sizeof(command), "rm -r %s", node->config.data_dir);
        assert_int_equal(system(command), 0);
    }
    free(node->content);
    free(node);
    return 0;
}

struct asked {
    struct http_request *request;
    bool done;
    int status;
    long code;
    struct bytes body;
    char text[512];
};

static void on_done(void *context, const struct http_answer *answer)
{
    struct asked *asked = context;

    asked->done = true;
    asked->status = answer->status;
    asked->code = answer->code;
    snprintf(asked->text, sizeof(asked->text), "%s", answer->text);
    assert_int_equal(bytes_append(&asked->body, answer->body, answer->body_bytes), 0);
}

static void trust(struct node *node, const char *name)
{
    snprintf(node->authorities, sizeof(node->authorities), "%s/%s", node->config.data_dir, name);
    setenv(HTTP_AUTHORITIES, node->authorities, 1);
}

static void start(struct node *node, const char *path, const char *const *headers,
                  struct asked *asked)
{
    char url[URL_TEXT_SIZE];
    const struct http_order order = {
        .url = url, .headers = headers, .timeout_ns = WAIT_NS, .answer_bytes_max = 2 * FILE_BYTES};

    snprintf(url, sizeof(url), HTTP_URL_TLS "%s%s", node->config.http, path);
    assert_int_equal(http_start(node->client, &order, NULL, on_done, asked, &asked->request), 0);
}

static void finish(struct node *node, const struct asked *asked)
{
    for (uint64_t until_ns = clock_monotonic_ns() + 2 * WAIT_NS;
         !asked->done && clock_monotonic_ns() < until_ns;)
        assert_true(sd_event_run(node->daemon.loop.event, NS_PER_SECOND / NS_PER_US) >= 0);
    assert_true(asked->done);
}

static void test_large_files_come_whole_several_at_a_time(void **state)
{
    struct node *node = *state;
    struct asked asked[REQUESTS] = {0};
    char path[URL_TEXT_SIZE / 2], header[PROOF_TEXT_SIZE], proof[CHECKPOINT_PROOF_SIZE];
    const char *const headers[] = {header, NULL};
    const struct checkpoint_range range = {"demo", FOLDER, FILE_NAME, 0, FILE_BYTES};
    uint8_t key[PLAN_KEY_SIZE];

    if (!HAS_OPENSSL)
        skip();
    trust(node, "node.pem");
    assert_true(plan_key_bytes(KEY, key));
    checkpoint_proof(key, &range, proof);
    snprintf(header, sizeof(header), "%s: %s", CHECKPOINT_PROOF_HEADER, proof);
    snprintf(path, sizeof(path),
             "/v1/jobs/demo/checkpoints/" FOLDER "/" FILE_NAME "?at=0&bytes=%zu", FILE_BYTES);
    for (unsigned i = 0; i < REQUESTS; i++)
        start(node, path, headers, &asked[i]);
    for (unsigned i = 0; i < REQUESTS; i++) {
        finish(node, &asked[i]);
        assert_int_equal(asked[i].status, 0);
        assert_int_equal(asked[i].code, 200);
        assert_int_equal(asked[i].body.size_bytes, FILE_BYTES);
        assert_memory_equal(asked[i].body.data, node->content, FILE_BYTES);
        bytes_done(&asked[i].body);
    }
}

static void test_the_token_is_wanted_over_tls_too(void **state)
{
    struct node *node = *state;
    struct asked refused = {0}, told = {0};

    if (!HAS_OPENSSL)
        skip();
    trust(node, "node.pem");
    start(node, "/metrics", NULL, &refused);
    finish(node, &refused);
    assert_int_equal(refused.code, 401);
    http_client_set_token(node->client, TOKEN);
    start(node, "/metrics", NULL, &told);
    finish(node, &told);
    assert_int_equal(told.code, 200);
    bytes_done(&refused.body);
    bytes_done(&told.body);
}

static void test_a_certificate_of_another_authority_is_refused(void **state)
{
    struct node *node = *state;
    struct asked asked = {0};

    if (!HAS_OPENSSL)
        skip();
    trust(node, "other.pem");
    start(node, "/metrics", NULL, &asked);
    finish(node, &asked);
    assert_int_equal(asked.status, -EKEYREJECTED);
    assert_non_null(strstr(asked.text, "of no authority that we trust"));
    assert_int_equal(asked.body.size_bytes, 0);
    bytes_done(&asked.body);
}

struct reading {
    const struct node *node;
    atomic_bool done;
    int status;
};

/* Read ranges like a worker: one after the other over a kept connection. */
static void *read_ranges(void *context)
{
    struct reading *reading = context;
    struct checkpoint_remote_node node = {.name = "node1"};
    struct checkpoint_remote_options options = {
        .job = "demo", .nodes = &node, .node_count = 1, .timeout_ns = WAIT_NS};
    struct checkpoint_remote *remote = NULL;
    AUTO_FREE uint8_t *data = malloc(FILE_BYTES);

    snprintf(node.http, sizeof(node.http), HTTP_URL_TLS "%.48s", reading->node->config.http);
    reading->status = data && plan_key_bytes(KEY, options.key)
                          ? checkpoint_remote_new(&options, &remote, NULL)
                          : -EINVAL;
    for (unsigned i = 0; i < RANGES && reading->status == 0; i++) {
        size_t size = 0, wanted = (size_t)64 << i;
        reading->status = checkpoint_remote_read(remote, "node1", FOLDER, FILE_NAME, i, data,
                                                 wanted, &size, NULL);
        if (reading->status == 0 &&
            (size != wanted || memcmp(data, reading->node->content + i, wanted) != 0))
            reading->status = -EBADMSG;
    }
    checkpoint_remote_free(remote);
    atomic_store(&reading->done, true);
    return NULL;
}

/*
 * Data that GnuTLS has decrypted and buffered wake no descriptor: the server must poll for them
 * itself.
 */
static void test_ranges_do_not_wait_for_a_timer(void **state)
{
    struct node *node = *state;
    struct reading reading = {.node = node};
    pthread_t thread;
    unsigned stalls = 0;

    if (!HAS_OPENSSL)
        skip();
    trust(node, "node.pem");
    assert_int_equal(pthread_create(&thread, NULL, read_ranges, &reading), 0);
    while (!atomic_load(&reading.done)) {
        uint64_t begun_ns = clock_monotonic_ns();
        assert_true(sd_event_run(node->daemon.loop.event, 300 * NS_PER_MS / NS_PER_US) >= 0);
        stalls += clock_monotonic_ns() - begun_ns > STALL_NS;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reading.status, 0);
    assert_true(stalls < RANGES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_large_files_come_whole_several_at_a_time, begin, end),
        cmocka_unit_test_setup_teardown(test_the_token_is_wanted_over_tls_too, begin, end),
        cmocka_unit_test_setup_teardown(test_ranges_do_not_wait_for_a_timer, begin, end),
        cmocka_unit_test_setup_teardown(test_a_certificate_of_another_authority_is_refused, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
