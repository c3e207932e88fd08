/* Tests that firnd detects at its start that another program uses a link port. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config/node_address.h"
#include "daemon/node/link_ports.h"

static char folder[] = "/tmp/firn-test-ports-XXXXXX";
static struct config config;

/* Listen as another program, at a port of @host that the kernel has chosen. */
static int listen_somewhere(const char *host, unsigned *ret_port)
{
    struct node_address address;
    struct sockaddr_in6 bound; /* the larger type, with the port at the same offset */
    socklen_t size = sizeof(bound);

    assert_int_equal(node_address_host(host, 0, &address), 0);
    int listener = socket(address.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address.socket, address.size_bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&bound, &size), 0);
    *ret_port = ntohs(bound.sin6_port);
    return listener;
}

static int setup(void **state)
{
    (void)state;
    config = (struct config){0};
    snprintf(config.address, sizeof(config.address), "127.0.0.1");
    snprintf(config.run_dir, sizeof(config.run_dir), "%s", folder);
    return 0;
}

static void test_a_taken_port_is_named(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    struct error error = {0};
    char words[32];
    unsigned port;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(hosts); i++) {
        int other = listen_somewhere(hosts[i], &port);
        snprintf(config.address, sizeof(config.address), "%s", hosts[i]);
        config.link_port = port;
        assert_int_equal(link_ports_check(&config, 1, &error), -EADDRINUSE);
        snprintf(words, sizeof(words), "port %u of %s", port, hosts[i]);
        assert_non_null(strstr(error.text, words));
        assert_non_null(strstr(error.text, "slot 0"));
        close(other);
        assert_int_equal(link_ports_check(&config, 1, &error), 0);
    }
}

/* A worker of the earlier firnd trains on and is adopted. */
static void test_a_port_with_a_worker_is_left_alone(void **state)
{
    struct error error = {0};
    char path[64];
    int other = listen_somewhere("127.0.0.1", &config.link_port);

    (void)state;
    assert_int_equal(link_ports_check(&config, 1, &error), -EADDRINUSE);
    snprintf(path, sizeof(path), "%s/workers/job.0.sock", folder);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(link_ports_check(&config, 1, &error), 0);
    unlink(path);
    close(other);
}

static void test_an_address_of_another_machine(void **state)
{
    struct error error = {0};

    (void)state;
    snprintf(config.address, sizeof(config.address), "192.0.2.1"); /* reserved for documents */
    config.link_port = 7600;
    assert_int_equal(link_ports_check(&config, 1, &error), -EADDRNOTAVAIL);
    assert_non_null(strstr(error.text, "address: cannot listen at 192.0.2.1:7600"));
    assert_non_null(strstr(error.text, "an address of this node"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_taken_port_is_named, setup),
        cmocka_unit_test_setup(test_a_port_with_a_worker_is_left_alone, setup),
        cmocka_unit_test_setup(test_an_address_of_another_machine, setup),
    };
    char workers[64];

    if (!mkdtemp(folder))
        return EXIT_FAILURE;
    snprintf(workers, sizeof(workers), "%s/workers", folder);
    mkdir(workers, 0700);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(workers);
    rmdir(folder);
    return failed;
}
