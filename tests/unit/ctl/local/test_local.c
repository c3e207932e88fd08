/* Local clusters: the state file, finding processes again, free ports. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "ctl/local/local_ports.h"
#include "ctl/local/local_workers.h"

static struct local_cluster cluster, other;
static struct error error;

static int setup(void **state)
{
    (void)state;
    memset(&error, 0, sizeof(error));
    memset(&other, 0, sizeof(other));
    cluster = (struct local_cluster){
        .dir = "/tmp/c1",
        .run_root = "/tmp/c1/run",
        .slots = 2,
        .threads = 3,
        .etcd_port = 16000,
        .etcd_peer_port = 16001,
        .etcd = {.pid = 12, .start_ticks = 345, .program = "/usr/bin/etcd"},
        .node_count = 2,
        .nodes = {{.name = "a", .http_port = 16002, .link_port = 16004},
                  {.name = "b",
                   .http_port = 16003,
                   .link_port = 16006,
                   .process = {.pid = 77, .start_ticks = 1ull << 40, .program = "/x/firnd"}}},
    };
    return 0;
}

static int decode(const char *text)
{
    return local_state_decode(text, strlen(text), "cluster.json", &other, &error);
}

static void test_state_comes_back_as_it_was(void **state)
{
    (void)state;
    AUTO_FREE char *text = local_state_encode(&cluster);
    assert_int_equal(decode(text), 0);
    assert_memory_equal(&cluster, &other, sizeof(cluster));
}

/* Cut at every byte the file is refused, and nothing is returned. */
static void test_a_damaged_state_is_refused(void **state)
{
    (void)state;
    AUTO_FREE char *text = local_state_encode(&cluster);
    size_t size = strlen(text);
    for (size_t length = 0; length < size - 1; length++) {
        memset(&error, 0, sizeof(error));
        assert_int_not_equal(local_state_decode(text, length, "cluster.json", &other, &error), 0);
        assert_non_null(strstr(error.text, "cluster.json"));
    }
    assert_int_equal(other.node_count, 0);
}

static void replace(char *text, const char *word, const char *with)
{
    char *at = strstr(text, word);
    assert_non_null(at);
    assert_int_equal(strlen(word), strlen(with));
    memcpy(at, with, strlen(with));
}

/* A folder that is removed with all its content must be a folder of ours, for any content of the
 * file. */
static void test_a_foreign_folder_of_sockets_is_refused(void **state)
{
    (void)state;
    const char *bad[] = {"/tmp/c1/rum", "/tmp/c1/etc", "/tmp/c2/run", "/srv/xyzzyz"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        AUTO_FREE char *text = local_state_encode(&cluster);
        replace(text, "/tmp/c1/run", bad[i]);
        assert_int_equal(decode(text), -EINVAL);
    }
    strcpy(cluster.run_root, "/tmp/firn-aBc123");
    AUTO_FREE char *good = local_state_encode(&cluster);
    assert_int_equal(decode(good), 0);
    strcpy(cluster.run_root, "/tmp/firn-x/../etc");
    AUTO_FREE char *climbs = local_state_encode(&cluster);
    assert_int_equal(decode(climbs), -EINVAL);
}

static void test_bad_values_are_refused(void **state)
{
    (void)state;
    const char *changes[][2] = {{"\"version\": 1", "\"version\": 2"},
                                {"\"name\": \"a\"", "\"name\": \"/\""},
                                {"\"pid\": 77", "\"pid\": -7"},
                                {"16002", "99999"}};
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        AUTO_FREE char *text = local_state_encode(&cluster);
        replace(text, changes[i][0], changes[i][1]);
        assert_int_equal(decode(text), -EINVAL);
    }
}

static void test_the_file_is_written_found_and_removed(void **state)
{
    (void)state;
    char folder[] = "/tmp/firn-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    strcpy(cluster.dir, folder);
    snprintf(cluster.run_root, sizeof(cluster.run_root), "%s/run", folder);
    assert_int_equal(local_state_load(folder, &other, &error), -ENOENT);
    assert_non_null(strstr(error.text, "local up"));
    assert_int_equal(local_state_save(&cluster, &error), 0);
    assert_int_equal(local_state_load(folder, &other, &error), 0);
    assert_memory_equal(&cluster, &other, sizeof(cluster));
    assert_int_equal(local_state_load_earlier(folder, &other, &error), -ENOENT);
    assert_int_equal(local_state_remove(&cluster, &error), 0);
    assert_int_equal(local_state_remove(&cluster, &error), 0);
    assert_int_equal(local_state_load(folder, &other, &error), -ENOENT);
    assert_int_equal(local_state_load_earlier(folder, &other, &error), 0); /* as it was before */
    assert_memory_equal(&cluster, &other, sizeof(cluster));
    char earlier[64];
    snprintf(earlier, sizeof(earlier), "%s/cluster.down.json", folder);
    assert_int_equal(unlink(earlier), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_nodes_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(local_find_node(&cluster, "b", &error), &cluster.nodes[1]);
    assert_null(local_find_node(&cluster, "c", &error));
    assert_non_null(strstr(error.text, "a to b"));
}

#define WORKER(socket)                                                                             \
    "/opt/bin/firn-worker\0--job\0demo\0--node\0a\0--slot\0"                                       \
    "1\0--socket\0" socket "\0"

static bool parse(const char *text, size_t size, struct local_worker *worker)
{
    return local_workers_parse(text, size, "/tmp/c1/run/a/", worker);
}

static void test_workers_are_told_by_their_socket(void **state)
{
    (void)state;
    static const char ours[] = WORKER("/tmp/c1/run/a/workers/demo.1.sock");
    static const char theirs[] = WORKER("/tmp/c1/run/b/workers/demo.1.sock");
    static const char longer[] = WORKER("/tmp/c1/run/ab/workers/demo.1.sock");
    static const char another[] = "vim\0--slot\0001\0--socket\0/tmp/c1/run/a/x\0";
    struct local_worker worker = {0};
    assert_true(parse(ours, sizeof(ours) - 1, &worker));
    assert_int_equal(worker.slot, 1);
    assert_string_equal(worker.job, "demo");
    assert_false(parse(theirs, sizeof(theirs) - 1, &worker));
    assert_false(parse(longer, sizeof(longer) - 1, &worker));
    assert_false(parse(another, sizeof(another) - 1, &worker));
    assert_false(parse("", 0, &worker));
    for (size_t length = 0; length < sizeof(ours) - 1; length++) /* never read past the end */
        (void)parse(ours, length, &worker);
}

static bool listens(unsigned port, int *ret_descriptor)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *ret_descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return !bind(*ret_descriptor, (struct sockaddr *)&address, sizeof(address)) &&
           !listen(*ret_descriptor, 1);
}

/* The same folder gets the same ports while they are free, and others once one is not. */
static void test_ports(void **state)
{
    (void)state;
    AUTO_CLOSE int taken = -1;
    snprintf(cluster.dir, sizeof(cluster.dir), "/tmp/firn-ports-%d", (int)getpid());
    assert_int_equal(local_ports_assign(&cluster, &error), 0);
    assert_int_equal(cluster.nodes[1].link_port, cluster.nodes[0].link_port + cluster.slots);
    assert_true(cluster.nodes[1].link_port + cluster.slots < 32768);
    other = cluster;
    assert_int_equal(local_ports_assign(&other, &error), 0);
    assert_int_equal(other.etcd_port, cluster.etcd_port);
    assert_true(listens(cluster.nodes[1].link_port + 1, &taken));
    assert_false(local_port_free(cluster.nodes[1].link_port + 1));
    assert_int_equal(local_ports_assign(&other, &error), 0);
    assert_int_not_equal(other.etcd_port, cluster.etcd_port);
}

static void spawn(const char *program, const char *const *arguments, struct process *process)
{
    assert_int_equal(process_spawn(program, arguments, "/dev/null", process, &error), 0);
}

static void test_a_process_is_known_by_id_start_and_program(void **state)
{
    (void)state;
    struct process process, imposter;
    spawn("/bin/sleep", (const char *const[]){"sleep", "600", NULL}, &process);
    assert_true(process_alive(&process));
    assert_int_equal(getsid(process.pid), process.pid); /* a session of its own */
    imposter = process;
    imposter.start_ticks++;
    assert_false(process_alive(&imposter));
    assert_int_equal(process_signal(&imposter, SIGKILL), -ESRCH);
    imposter = process;
    strcpy(imposter.program, "/usr/bin/etcd");
    assert_int_equal(process_signal(&imposter, SIGKILL), -ESRCH);
    assert_int_equal(process_wait(&process, clock_monotonic_ns()), -ETIMEDOUT);
    assert_int_equal(process_signal(&process, SIGKILL), 0);
    assert_int_equal(process_wait(&process, clock_monotonic_ns() + 10 * NS_PER_SECOND), 0);
    assert_int_equal(process_signal(&process, SIGKILL), -ESRCH);
    assert_false(process_alive(&process));
    assert_int_equal(process_signal(&(struct process){0}, SIGKILL), -ESRCH);
    while (waitpid(process.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void test_a_program_that_is_not_there_is_said_at_once(void **state)
{
    (void)state;
    struct process process;
    assert_int_equal(process_spawn("/nonexistent/firnd", (const char *const[]){"firnd", NULL},
                                   "/dev/null", &process, &error),
                     -ENOENT);
    assert_non_null(strstr(error.text, "/nonexistent/firnd"));
    while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* A daemon must not inherit firnctl's open descriptors: a pipe would never end. */
static void test_no_descriptor_is_inherited(void **state)
{
    (void)state;
    struct process process;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0); /* without CLOEXEC, as a shell hands them down */
    spawn("/bin/sleep", (const char *const[]){"sleep", "600", NULL}, &process);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* would block if the child had it too */
    close(ends[0]);
    assert_int_equal(process_signal(&process, SIGKILL), 0);
    while (waitpid(process.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

#define LOCAL_TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOCAL_TEST(test_state_comes_back_as_it_was),
        LOCAL_TEST(test_a_damaged_state_is_refused),
        LOCAL_TEST(test_a_foreign_folder_of_sockets_is_refused),
        LOCAL_TEST(test_bad_values_are_refused),
        LOCAL_TEST(test_the_file_is_written_found_and_removed),
        LOCAL_TEST(test_nodes_by_name),
        LOCAL_TEST(test_workers_are_told_by_their_socket),
        LOCAL_TEST(test_ports),
        LOCAL_TEST(test_a_process_is_known_by_id_start_and_program),
        LOCAL_TEST(test_a_program_that_is_not_there_is_said_at_once),
        LOCAL_TEST(test_no_descriptor_is_inherited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
