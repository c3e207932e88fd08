/*
 * Tests of the routes of a generation of two stages by two replicas, each worker a thread with its
 * own links: the routes that NCCL (played by fake_nccl.c) carries, the delivery of tensors from end
 * to end, and the fallback when NCCL does not come up. The GPU is the CPU backend with streams of
 * the fake NCCL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"

#include "lib/comm/fake_nccl_fixture.h"
#include "worker/device/routes.h"

#define WORKERS  4
#define LONG_NS  (60 * NS_PER_SECOND)
#define VALUE(r) (100 + (r))

static struct plan plan = {.generation = 7,
                           .layout.stage_count = 2,
                           .layout.replica_count = 2,
                           .layout.worker_count = WORKERS};

/* ---- a GPU ---- */

struct kernel_device {
    struct fake_stream streams[KERNEL_QUEUES];
    uint8_t name; /* 0: none */
};

struct kernel_event {
    struct fake_stream *stream;
    unsigned long posted;
};

static int gpu_event_new(struct kernel_device *device, struct kernel_event **ret_event)
{
    (void)device;
    *ret_event = calloc(1, sizeof(**ret_event));
    return *ret_event ? 0 : -ENOMEM;
}

static void gpu_event_free(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    free(event);
}

static void gpu_event_record(struct kernel_device *device, struct kernel_event *event,
                             enum kernel_queue queue)
{
    event->stream = &device->streams[queue];
    event->posted = event->stream->posted;
}

static bool gpu_event_passed(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    return event->stream->finished >= event->posted;
}

static void gpu_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                           struct kernel_event *event)
{
    (void)queue;
    assert_true(gpu_event_passed(device, event)); /* this device computes nothing */
}

static int gpu_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    (void)device;
    *ret_memory = calloc(1, size_bytes);
    return *ret_memory ? 0 : -ENOMEM;
}

static void gpu_release(struct kernel_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void *gpu_stream(struct kernel_device *device, enum kernel_queue queue)
{
    return &device->streams[queue];
}

static bool gpu_uuid(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE])
{
    memset(ret_uuid, device->name, KERNEL_UUID_SIZE);
    return device->name != 0;
}

static const struct kernel gpu = {
    .name = "gpu",
    .allocate = gpu_allocate,
    .release = gpu_release,
    .event_new = gpu_event_new,
    .event_free = gpu_event_free,
    .event_record = gpu_event_record,
    .event_passed = gpu_event_passed,
    .queue_wait = gpu_queue_wait,
    .stream = gpu_stream,
    .uuid = gpu_uuid,
};

/* ---- workers ---- */

struct worker {
    pthread_t thread;
    unsigned rank;
    struct mesh *mesh;
    pthread_barrier_t *barrier;
    struct kernel_device device;
    struct nccl_use nccl;
    int status;
    struct error error;
    char carriers[ROUTES + 1]; /* one letter each: n: NCCL, m: links */
    unsigned wrong;
};

struct crew {
    struct world world;
    pthread_barrier_t barrier;
    struct worker workers[WORKERS];
};

static void move_one(struct worker *worker, struct carrier *carrier, bool receive, unsigned peer)
{
    unsigned value = VALUE(receive ? 0 : worker->rank);
    const struct carrier_move move = {
        .peer = peer, .receive = receive, .tag = 99, .data = &value, .size_bytes = sizeof(value)};
    struct carrier_request *request;
    int status = carrier_post(carrier, &move, 1, &request);

    while (!status && !carrier_test(carrier, request))
        sched_yield();
    if (!status)
        status = carrier_complete(carrier, &request);
    worker->wrong += status != 0 || (receive && value != VALUE(peer));
}

/* Stage 0 of a replica sends forward, stage 1 backward; replica 0 sends to replica 1. */
static void move_on_all(struct worker *worker, const struct routes *routes)
{
    unsigned stage = worker->rank % 2, replica = worker->rank / 2;
    unsigned neighbour = worker->rank ^ 1, twin = worker->rank ^ 2;

    move_one(worker, routes->carriers[ROUTE_REDUCTION], replica == 1, twin);
    if (stage == 0) {
        move_one(worker, routes->carriers[ROUTE_FORWARD_OUT], false, neighbour);
        move_one(worker, routes->carriers[ROUTE_BACKWARD_IN], true, neighbour);
    } else {
        move_one(worker, routes->carriers[ROUTE_FORWARD_IN], true, neighbour);
        move_one(worker, routes->carriers[ROUTE_BACKWARD_OUT], false, neighbour);
    }
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct routes routes = {0};
    const struct routes_options options = {.mesh = worker->mesh,
                                           .plan = &plan,
                                           .rank = worker->rank,
                                           .kernel = &gpu,
                                           .device = &worker->device,
                                           .nccl = &worker->nccl,
                                           .failure_timeout_ns = LONG_NS};

    worker->status = routes_open(&options, &routes, &worker->error);
    for (unsigned i = 0; i < ROUTES && !worker->status; i++) {
        const struct carrier_operations *operations = routes.carriers[i]->operations;
        worker->carriers[i] = operations->name[0];
        worker->wrong += operations->device_memory != (worker->carriers[i] == 'n');
    }
    if (!worker->status)
        move_on_all(worker, &routes);
    pthread_barrier_wait(worker->barrier); /* like a commit: all tensors have arrived */
    routes_close(&routes);
    return NULL;
}

static bool hosts_of_their_own; /* as with NCCL_HOSTID */

/* Run workers with GPUs of @names; 0: a worker without a GPU, and so without NCCL. */
static void crew_run(struct crew *crew, const uint8_t names[WORKERS])
{
    memset(crew, 0, sizeof(*crew));
    world_init(&crew->world, WORKERS);
    world_open(&crew->world);
    pthread_barrier_init(&crew->barrier, NULL, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *worker = &crew->workers[i];
        worker->rank = i;
        worker->mesh = crew->world.meshes[i];
        worker->barrier = &crew->barrier;
        worker->device.name = names[i];
        if (hosts_of_their_own)
            setenv("NCCL_HOSTID", (const char *[]){"a", "b", "c", "d"}[i], 1);
        nccl_use_init(&worker->nccl, &gpu, &worker->device);
        unsetenv("NCCL_HOSTID");
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(
            pthread_create(&crew->workers[i].thread, NULL, run_worker, &crew->workers[i]), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(crew->workers[i].thread, NULL);
}

static void crew_end(struct crew *crew)
{
    for (unsigned i = 0; i < WORKERS; i++)
        nccl_use_done(&crew->workers[i].nccl);
    world_close(&crew->world);
    world_done(&crew->world);
    pthread_barrier_destroy(&crew->barrier);
    assert_int_equal(fake_nccl->alive, 0);
    assert_int_equal(fake_nccl->wrong, 0);
}

static void expect(struct crew *crew, const uint8_t names[WORKERS],
                   const char *const carriers[WORKERS])
{
    crew_run(crew, names);
    for (unsigned i = 0; i < WORKERS; i++) {
        if (crew->workers[i].status)
            fail_msg("rank %u: %s", i, crew->workers[i].error.text);
        assert_string_equal(crew->workers[i].carriers, carriers[i]);
        assert_int_equal(crew->workers[i].wrong, 0);
    }
    crew_end(crew);
}

/* ---- tests; routes: reduction, forward in, out, backward in, out ---- */

static const uint8_t each_its_own[WORKERS] = {1, 2, 3, 4};
static const char *const all_mesh[WORKERS] = {"mmmmm", "mmmmm", "mmmmm", "mmmmm"};

static void test_a_gpu_each_is_nccl(void **state)
{
    (void)state;
    struct crew crew;
    expect(&crew, each_its_own, (const char *[]){"nmnnm", "nnmmn", "nmnnm", "nnmmn"});
    assert_true(fake_nccl->moved == 6 * sizeof(unsigned));
}

static void test_a_shared_gpu_is_no_nccl_for_those_who_share_it(void **state)
{
    (void)state;
    struct crew crew;
    expect(&crew, (const uint8_t[]){1, 1, 3, 4},
           (const char *[]){"nmmmm", "nmmmm", "nmnnm", "nnmmn"});
    expect(&crew, (const uint8_t[]){1, 2, 1, 4},
           (const char *[]){"mmnnm", "nnmmn", "mmnnm", "nnmmn"});
}

static void test_on_hosts_of_their_own_they_may_share_it(void **state)
{
    (void)state;
    struct crew crew;
    hosts_of_their_own = true;
    expect(&crew, (const uint8_t[]){1, 1, 1, 1},
           (const char *[]){"nmnnm", "nnmmn", "nmnnm", "nnmmn"});
}

static void test_one_without_nccl(void **state)
{
    (void)state;
    struct crew crew;
    expect(&crew, (const uint8_t[]){0, 2, 3, 4},
           (const char *[]){"mmmmm", "nmmmm", "mmnnm", "nnmmn"});
}

static void test_no_library(void **state)
{
    (void)state;
    struct crew crew;
    setenv("FIRN_NCCL_LIBRARY", "libno-such-library.so", 1);
    expect(&crew, each_its_own, all_mesh);
    setenv("FIRN_NCCL_LIBRARY", "", 1);
    expect(&crew, each_its_own, all_mesh);
}

static void test_without_an_identity_all_stay_with_the_mesh(void **state)
{
    (void)state;
    struct crew crew;
    fake_nccl->no_id = true;
    expect(&crew, each_its_own, all_mesh);
}

/* The generation fails; the worker that caused it offers no NCCL in the next generation. */
static void test_a_join_that_fails_is_not_tried_again(void **state)
{
    (void)state;
    struct crew crew;
    unsigned given_up = 0;
    fake_nccl->init_result = 2;
    crew_run(&crew, each_its_own);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(crew.workers[i].status == -EIO || crew.workers[i].status == -ECONNRESET);
        assert_int_equal(crew.workers[i].status == -EIO,
                         crew.workers[i].nccl.offer.nccl_version == 0);
        given_up += crew.workers[i].status == -EIO;
    }
    assert_true(given_up > 0);
    crew_end(&crew);
}

static int setup(void **state)
{
    (void)state;
    memset(fake_nccl, 0, sizeof(*fake_nccl));
    fake_nccl->version = 22809;
    fake_nccl->together = true;
    fake_nccl->polls_to_join = 2;
    hosts_of_their_own = false;
    return setenv("FIRN_NCCL_LIBRARY", FAKE_NCCL, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_a_gpu_each_is_nccl),
        TEST(test_a_shared_gpu_is_no_nccl_for_those_who_share_it),
        TEST(test_on_hosts_of_their_own_they_may_share_it),
        TEST(test_one_without_nccl),
        TEST(test_no_library),
        TEST(test_without_an_identity_all_stay_with_the_mesh),
        TEST(test_a_join_that_fails_is_not_tried_again),
    };
    return cmocka_run_group_tests(tests, fake_nccl_load, fake_nccl_unload);
}
