/*
 * Tests of whole engines whose tensors NCCL moves (played by fake_nccl.c): two stages by two
 * replicas, each worker a thread with its own links and GPU, train to the same bits as one worker
 * alone and as the same four workers over links. The GPU is the CPU backend with streams of the
 * fake NCCL: compute is immediate, and waits where the compute queue would wait for tensors from
 * NCCL.
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
#include <unistd.h>

#include "lib/comm/mesh_harness.h"

#include "base/hash.h"
#include "lib/comm/fake_nccl_fixture.h"
#include "worker/step/commit_round.h"
#include "worker/step/engine.h"
#include "worker/step/job_dataset.h"

#define WORKERS  4
#define STEPS    4
#define LONG_NS  (60 * NS_PER_SECOND)
#define SHORT_NS (200 * NS_PER_MS) /* for tensors that never arrive */

/* ---- a GPU ---- */

struct kernel_event {
    struct fake_stream *stream; /* NULL: the compute queue, always passed */
    unsigned long posted;
};

/* Queues of the devices of the CPU backend, which has no queues. */
static struct gpu_queues {
    struct kernel_device *device;
    struct fake_stream streams[KERNEL_QUEUES];
    struct kernel_event behind; /* the event that the compute queue waits for, but not the host */
    bool host_goes_on;
} all_queues[WORKERS];

static struct gpu_queues *queues_of(const struct kernel_device *device)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (all_queues[i].device == device)
            return &all_queues[i];
    abort();
}

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
    struct gpu_queues *queues = queues_of(device);

    *event = queue < KERNEL_QUEUE_ROUTES
                 ? queues->behind
                 : (struct kernel_event){&queues->streams[queue], queues->streams[queue].posted};
}

static bool gpu_event_passed(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    return !event->stream || event->stream->finished >= event->posted;
}

static void gpu_event_wait(struct kernel_device *device, struct kernel_event *event)
{
    while (!gpu_event_passed(device, event))
        sched_yield();
}

static void gpu_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                           struct kernel_event *event)
{
    struct gpu_queues *queues = queues_of(device);

    if (!queues->host_goes_on)
        gpu_event_wait(device, event);
    else if (queue == KERNEL_QUEUE_COMPUTE && !gpu_event_passed(device, event))
        queues->behind = *event;
}

static int gpu_synchronize(struct kernel_device *device, struct error *error)
{
    struct gpu_queues *queues = queues_of(device);

    (void)error;
    for (unsigned i = 0; i < KERNEL_QUEUES; i++)
        while (queues->streams[i].finished < queues->streams[i].posted)
            sched_yield();
    return 0;
}

static _Thread_local unsigned allocations;

static int gpu_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    allocations++;
    return kernel_cpu()->allocate(device, size_bytes, ret_memory);
}

static void *gpu_stream(struct kernel_device *device, enum kernel_queue queue)
{
    return &queues_of(device)->streams[queue];
}

static bool gpu_uuid(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE])
{
    memset(ret_uuid, 1 + (int)(queues_of(device) - all_queues), KERNEL_UUID_SIZE);
    return true;
}

static struct kernel make_gpu(void)
{
    struct kernel gpu = *kernel_cpu();

    gpu.host_memory = false;
    gpu.allocate = gpu_allocate;
    gpu.event_new = gpu_event_new;
    gpu.event_free = gpu_event_free;
    gpu.event_record = gpu_event_record;
    gpu.event_passed = gpu_event_passed;
    gpu.event_wait = gpu_event_wait;
    gpu.queue_wait = gpu_queue_wait;
    gpu.synchronize = gpu_synchronize;
    gpu.stream = gpu_stream;
    gpu.uuid = gpu_uuid;
    return gpu;
}

/* ---- a job ---- */

static struct job_spec small_job(void)
{
    static const char text[] =
        "{\"name\":\"engines\",\"model\":{\"family\":\"gpt2\",\"layers\":2,\"width\":16,"
        "\"heads\":2,\"context\":8,\"vocab\":256,\"tied\":true},\"data\":{\"format\":\"bytes\","
        "\"path\":\"" FIRN_SOURCE "/elastic\"},\"train\":{\"steps\":8,\"lanes\":6,"
        "\"micro_batch\":1,\"micro_batches_per_lane\":2,\"seed\":7,\"optimizer\":{\"lr\":0.01}}}";
    struct job_spec spec;
    struct error error = {0};
    json_t *tree = json_loads(text, 0, NULL);

    assert_non_null(tree);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    json_decref(tree);
    return spec;
}

static struct plan *make_plan(const struct job_spec *spec, unsigned stages, unsigned replicas)
{
    struct plan *plan = plan_new();
    unsigned units = job_model_unit_count(&spec->model);

    assert_non_null(plan);
    plan->generation = 7;
    plan->layout.stage_count = stages;
    plan->layout.replica_count = replicas;
    plan->layout.worker_count = stages * replicas;
    plan->layout.workers = calloc(plan->layout.worker_count, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(stages + 1, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(replicas + 1, sizeof(unsigned));
    assert_true(plan->layout.workers && plan->layout.stage_first_unit &&
                plan->layout.replica_first_lane);
    for (unsigned stage = 0; stage <= stages; stage++)
        plan->layout.stage_first_unit[stage] = stage * units / stages;
    for (unsigned replica = 0; replica <= replicas; replica++)
        plan->layout.replica_first_lane[replica] = replica * spec->train.lanes / replicas;
    return plan;
}

/* ---- workers ---- */

#define ALL_RANKS (-2)
static int digests_of_rank; /* the rank that asks for digests; -1: none */

struct worker;
typedef void (*change_function)(struct worker *worker, struct routes *routes);

struct worker {
    pthread_t thread;
    const struct job_spec *spec;
    const struct plan *plan;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct mesh *mesh;
    pthread_barrier_t *barrier;
    change_function change; /* of the agreed routes; NULL: none */
    bool hangs;             /* it trains nothing, but its links work */
    struct nccl_use nccl;
    struct state *state;
    struct dataset *dataset;
    unsigned rank;
    unsigned allocations; /* of the device, from the engine on */
    int status;
    struct error error;
};

static int step(struct worker *worker, struct engine *engine, struct step_commit_up *up,
                struct step_commit_down *down)
{
    int status = engine_compute(engine, &worker->error);

    if (status)
        return status;
    *up = (struct step_commit_up){.data_digest = dataset_digest(worker->dataset).low,
                                  .record = worker->state->hold};
    readiness_init(&up->readiness, worker->rank, 0);
    status = commit_round_run(worker->mesh, worker->plan, worker->rank, false, up,
                              &(struct commit_root){0}, down, &worker->error);
    if (!status)
        engine_apply(engine, &down->record);
    return status;
}

static int train(struct worker *worker, const struct routes *routes)
{
    AUTO_FREE struct step_commit_up *up = calloc(1, sizeof(*up));
    AUTO_FREE struct step_commit_down *down = calloc(1, sizeof(*down));
    struct engine *engine = NULL;
    const struct engine_options options = {.state = worker->state,
                                           .dataset = worker->dataset,
                                           .plan = worker->plan,
                                           .rank = worker->rank,
                                           .routes = routes};
    allocations = 0;
    int status = !up || !down ? -ENOMEM : engine_new(&options, &engine, &worker->error);

    for (unsigned i = 0; i < STEPS && !status; i++)
        status = step(worker, engine, up, down);
    engine_free(engine);
    worker->allocations = allocations;
    return status;
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    struct routes routes = {0};
    const struct routes_options options = {.mesh = worker->mesh,
                                           .plan = worker->plan,
                                           .rank = worker->rank,
                                           .kernel = worker->kernel,
                                           .device = worker->device,
                                           .nccl = &worker->nccl,
                                           .failure_timeout_ns = LONG_NS};

    worker->status = routes_open(&options, &routes, &worker->error);
    if (!worker->status && worker->change)
        worker->change(worker, &routes);
    if (!worker->status && !worker->hangs)
        worker->status = train(worker, &routes);
    if (worker->status)
        mesh_abort(worker->mesh, "a worker failed");
    pthread_barrier_wait(worker->barrier); /* all tensors have arrived */
    routes_close(&routes);
    return NULL;
}

static void open_worker(struct worker *worker)
{
    const struct plan *plan = worker->plan;
    unsigned stage = worker->rank % plan->layout.stage_count;
    unsigned first = plan->layout.stage_first_unit[stage];
    const struct kernel_options options = {.thread_count = 1};
    struct error error = {0};

    if (worker->kernel->open(&options, &worker->device, &error))
        fail_msg("%s", error.text);
    all_queues[worker->rank] = (struct gpu_queues){.device = worker->device};
    nccl_use_init(&worker->nccl, worker->kernel, worker->device);
    worker->nccl.offer.digests =
        digests_of_rank == (int)worker->rank || digests_of_rank == ALL_RANKS;
    if (state_new(worker->spec, worker->kernel, worker->device, &worker->state, &error) ||
        state_initialize(worker->state, first, plan->layout.stage_first_unit[stage + 1] - first,
                         &error) ||
        job_dataset_open(worker->spec, NULL, NULL, &worker->dataset, &error))
        fail_msg("%s", error.text);
}

static void close_worker(struct worker *worker)
{
    state_free(worker->state);
    dataset_close(worker->dataset);
    nccl_use_done(&worker->nccl);
    worker->kernel->close(worker->device);
}

/*
 * Return the digest of all parameters, unit by unit, from the first replica that holds each unit.
 */
static struct hash128 digest_of(const struct worker *workers)
{
    const struct plan *plan = workers[0].plan;
    struct hash_stream *hash = hash_stream_new();

    assert_non_null(hash);
    for (unsigned unit = 0; unit < plan->layout.stage_first_unit[plan->layout.stage_count];
         unit++) {
        unsigned stage = 0;
        while (unit >= plan->layout.stage_first_unit[stage + 1])
            stage++;
        const struct state_unit *held = &workers[stage].state->units[unit];
        assert_true(held->held);
        hash_stream_add(hash, held->parameters, held->layout.count * sizeof(float));
    }
    struct hash128 digest = hash_stream_result(hash);
    hash_stream_free(hash);
    return digest;
}

/* Let @stages x @replicas workers, each a thread, train for STEPS steps. */
struct play {
    struct worker workers[WORKERS];
    struct job_spec spec;
    struct kernel gpu;
    struct plan *plan;
    pthread_barrier_t barrier;
    struct world world;
};

static void play(struct play *play, unsigned stages, unsigned replicas, change_function change)
{
    *play = (struct play){.spec = small_job(), .gpu = make_gpu()};
    play->plan = make_plan(&play->spec, stages, replicas);
    world_init(&play->world, play->plan->layout.worker_count);
    world_open(&play->world);
    pthread_barrier_init(&play->barrier, NULL, play->plan->layout.worker_count);
    for (unsigned i = 0; i < play->plan->layout.worker_count; i++) {
        play->workers[i] = (struct worker){.spec = &play->spec,
                                           .plan = play->plan,
                                           .kernel = &play->gpu,
                                           .mesh = play->world.meshes[i],
                                           .barrier = &play->barrier,
                                           .change = change,
                                           .rank = i};
        open_worker(&play->workers[i]);
    }
    for (unsigned i = 0; i < play->plan->layout.worker_count; i++)
        assert_int_equal(
            pthread_create(&play->workers[i].thread, NULL, run_worker, &play->workers[i]), 0);
    for (unsigned i = 0; i < play->plan->layout.worker_count; i++)
        pthread_join(play->workers[i].thread, NULL);
}

static void play_end(struct play *play)
{
    for (unsigned i = 0; i < play->plan->layout.worker_count; i++)
        close_worker(&play->workers[i]);
    world_close(&play->world);
    world_done(&play->world);
    pthread_barrier_destroy(&play->barrier);
    plan_free(play->plan);
    assert_int_equal(fake_nccl->alive, 0);
    assert_int_equal(fake_nccl->wrong, 0);
    assert_int_equal(fake_nccl->wrong_ends, 0);
}

/* Return the digest of the state of @stages x @replicas workers after STEPS steps. */
static struct hash128 run(unsigned stages, unsigned replicas)
{
    struct play trained;

    play(&trained, stages, replicas, NULL);
    for (unsigned i = 0; i < trained.plan->layout.worker_count; i++) {
        if (trained.workers[i].status)
            fail_msg("rank %u: %s", i, trained.workers[i].error.text);
        assert_int_equal(trained.workers[i].allocations, 1); /* the arena */
    }
    struct hash128 digest = digest_of(trained.workers);
    play_end(&trained);
    assert_int_equal(fake_nccl->largest_abort, 0); /* an orderly end */
    return digest;
}

/* ---- tests ---- */

static struct hash128 alone(void)
{
    struct hash128 digest = run(1, 1);
    assert_true(fake_nccl->moved == 0);
    return digest;
}

static void test_over_nccl_the_bits_are_the_same(void **state)
{
    static const unsigned layouts[][2] = {{2, 1}, {1, 2}, {2, 2}, {1, 4}, {4, 1}};
    struct hash128 want = alone();

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        unsigned long before = fake_nccl->moved;
        struct hash128 digest = run(layouts[i][0], layouts[i][1]);
        assert_true(fake_nccl->moved > before);
        assert_true(hash128_equal(digest, want));
    }
}

static void test_over_links_they_are_too(void **state)
{
    struct hash128 want = alone();

    (void)state;
    assert_int_equal(setenv("FIRN_NCCL_LIBRARY", "", 1), 0);
    struct hash128 digest = run(2, 2);
    assert_true(fake_nccl->moved == 0);
    assert_true(hash128_equal(digest, want));
}

/* A guard with a short deadline, in place of the carrier's own. */
static struct hasty {
    struct carrier carrier; /* first */
    struct nccl_clique *clique;
    struct carrier *patient;
} hasty;

static void hasty_guard(struct carrier *carrier)
{
    nccl_guard(((struct hasty *)carrier)->clique, clock_monotonic_ns() + SHORT_NS);
}

static int hasty_unguard(struct carrier *carrier)
{
    return carrier_unguard(((struct hasty *)carrier)->patient);
}

static const struct carrier_operations hasty_operations = {
    .name = "hasty", .guard = hasty_guard, .unguard = hasty_unguard};

static void go_over_links(struct routes *routes, enum route route)
{
    if (routes->carriers[route] != routes->over_mesh)
        carrier_free(routes->carriers[route]);
    routes->carriers[route] = routes->over_mesh;
}

static void hang_in_between(struct worker *worker, struct routes *routes)
{
    worker->hangs = worker->rank == 1;
    queues_of(worker->device)->host_goes_on = true;
    go_over_links(routes, ROUTE_FORWARD_IN);
    go_over_links(routes, ROUTE_FORWARD_OUT);
    if (worker->hangs)
        return;
    hasty = (struct hasty){{&hasty_operations}, routes->clique, routes->guard};
    routes->guard = &hasty.carrier;
}

/*
 * Activations leave over links, gradients arrive by NCCL, and the next stage hangs: no link breaks,
 * and the copies to send are behind the tensors that the device waits for.
 */
static void test_a_device_that_waits_for_one_who_hangs(void **state)
{
    struct play stuck;
    struct mesh_fault fault;

    (void)state;
    play(&stuck, 2, 1, hang_in_between);
    assert_int_equal(stuck.workers[0].status, -ECONNRESET);
    mesh_fault(stuck.workers[0].mesh, &fault);
    assert_string_equal(fault.text, "NCCL: no answer in time while the device waits for a peer");
    play_end(&stuck);
}

static int setup(void **state)
{
    (void)state;
    memset(fake_nccl, 0, sizeof(*fake_nccl));
    fake_nccl->version = 22809;
    fake_nccl->together = true;
    digests_of_rank = -1;
    return setenv("FIRN_NCCL_LIBRARY", FAKE_NCCL, 1);
}

/*
 * Some rank adds, multiplies by or trains with each of these tensors. One rank that asks for
 * digests is enough for its routes.
 */
static void test_a_bit_that_is_flipped_on_the_way_breaks_the_links(void **state)
{
    static const unsigned layouts[][2] = {{2, 1}, {1, 2}, {2, 2}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(layouts); i++)
        for (int flip = 1; flip <= 8; flip++) {
            struct play damaged;
            struct mesh_fault fault;
            unsigned broken = 0;
            setup(NULL);
            fake_nccl->flip = flip;
            digests_of_rank = layouts[i][0] * layouts[i][1] > 2 ? ALL_RANKS : 1;
            play(&damaged, layouts[i][0], layouts[i][1], NULL);
            for (unsigned rank = 0; rank < damaged.plan->layout.worker_count; rank++) {
                mesh_fault(damaged.workers[rank].mesh, &fault);
                broken += damaged.workers[rank].status == -ECONNRESET && fault.failed;
                if (!strstr(fault.text, "was changed on its way from device to device"))
                    fail_msg("flip %d: rank %u: %s", flip, rank, fault.text);
                assert_int_equal(damaged.workers[rank].state->applied_step, 0);
            }
            assert_int_equal(broken, damaged.plan->layout.worker_count);
            play_end(&damaged);
        }
}

static void test_with_digests_the_bits_are_the_same(void **state)
{
    struct hash128 want = alone();

    (void)state;
    digests_of_rank = 1;
    for (unsigned stages = 1; stages <= 2; stages++) {
        struct hash128 digest = run(stages, 2);
        assert_true(hash128_equal(digest, want));
    }
    assert_true(fake_nccl->moved > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_over_nccl_the_bits_are_the_same, setup),
        cmocka_unit_test_setup(test_over_links_they_are_too, setup),
        cmocka_unit_test_setup(test_a_bit_that_is_flipped_on_the_way_breaks_the_links, setup),
        cmocka_unit_test_setup(test_with_digests_the_bits_are_the_same, setup),
        cmocka_unit_test_setup(test_a_device_that_waits_for_one_who_hangs, setup),
    };
    return cmocka_run_group_tests(tests, fake_nccl_load, fake_nccl_unload);
}
