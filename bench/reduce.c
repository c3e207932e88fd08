/*
 * The cost of exactness: the reduction along the lane tree (comm/reduce/reduce.h) beside a plain
 * ring all-reduce that adds in the order of the ring, over the same links, with the same
 * additions, in the same rounds.
 *
 * The replicas are threads of this process with a mesh each, over TCP on 127.0.0.1. Both reductions
 * send the same number of bytes if the lanes of a replica are one subtree (8 lanes). With 12 lanes
 * and 4 replicas the tree cuts through replicas, which costs more bytes: the price of the same sum
 * as with 1, 2, 3, 6 and 12 replicas.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/lib/measure.h"
#include "bench/lib/usage.h"
#include "comm/mesh/mesh.h"
#include "comm/reduce/reduce.h"
#include "kernels/kernel.h"

#define SEAL_TURNS   5u
#define SEAL_MIB     32u
#define REPLICAS_MAX 4
#define RING_TAG     (UINT64_C(1) << 63) /* apart from the bucket's tags */
#define OPEN_NS      (20 * NS_PER_SECOND)

/* How the replicas are linked. */
enum links {
    LINKS_AUTHENTICATED, /* as between machines */
    LINKS_CHECKSUMS,     /* link_seals: checksums */
    LINKS_LOCAL,         /* as within one node (comm/mesh/local.h) */
};
#define LINKS_COUNT 3

struct world {
    enum links links;
    unsigned replicas, lanes, rounds;
    size_t count; /* f32 elements of the gradient */
    char addresses[REPLICAS_MAX][ADDRESS_SIZE];
    struct mesh_listener listeners[REPLICAS_MAX];
    pthread_barrier_t barrier;
    struct samples exact, ring, ratio; /* written by replica 0 */
};

struct replica {
    struct world *world;
    unsigned rank;
    pthread_t thread;
    struct mesh *mesh;
    struct carrier *carrier;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct reduce_bucket *bucket;
    unsigned ranks[REPLICAS_MAX];
    uint16_t owners[LANE_TREE_LANES_MAX]; /* lane -> replica */
    float *subtrees[LANE_TREE_SUBTREES_MAX];
    float *incoming;              /* one chunk, for the ring */
    uint64_t exact_tag, ring_tag; /* of the last message */
};

static void check(int status, const char *what)
{
    if (status)
        measure_die("%s: %s", what, strerror(-status));
}

static void add(void *context, float *output, const float *a, const float *b, size_t count)
{
    const struct replica *replica = context;
    replica->kernel->tree_add(replica->device, output, a, b, count);
}

/* ---- the exact reduction ---- */

static void reduce_exactly(struct replica *replica)
{
    replica->exact_tag += 256;
    check(
        reduce_begin(replica->bucket, replica->exact_tag, replica->subtrees, replica->world->count),
        "beginning a reduction");
    check(reduce_combine(replica->bucket), "combining");
    check(reduce_finish(replica->bucket, replica->subtrees[0]), "finishing a reduction");
}

/* ---- the plain ring ---- */

struct chunk {
    size_t begin, count;
};

static struct chunk chunk_of(const struct world *world, unsigned index)
{
    size_t begin = world->count * index / world->replicas;
    return (struct chunk){begin, world->count * (index + 1) / world->replicas - begin};
}

/* Send @out to the next replica and receive @in from the previous replica into @to. */
static void pass_on(struct replica *replica, struct chunk out, struct chunk in, float *to)
{
    unsigned replicas = replica->world->replicas, rank = replica->rank;
    struct mesh_request *send, *receive;

    replica->ring_tag++;
    check(mesh_receive(replica->mesh, (rank + replicas - 1) % replicas, replica->ring_tag, to,
                       in.count * sizeof(float), &receive),
          "receiving");
    check(mesh_send(replica->mesh, (rank + 1) % replicas, replica->ring_tag,
                    replica->subtrees[0] + out.begin, out.count * sizeof(float), &send),
          "sending");
    check(mesh_wait(receive, UINT64_MAX), "receiving");
    check(mesh_wait(send, UINT64_MAX), "sending");
}

static void reduce_in_a_ring(struct replica *replica)
{
    const struct world *world = replica->world;
    unsigned replicas = world->replicas, rank = replica->rank;
    float *values = replica->subtrees[0];

    for (unsigned step = 0; step + 1 < replicas; step++) {
        struct chunk in = chunk_of(world, (rank + 2 * replicas - step - 1) % replicas);
        pass_on(replica, chunk_of(world, (rank + replicas - step) % replicas), in,
                replica->incoming);
        add(replica, values + in.begin, values + in.begin, replica->incoming, in.count);
    }
    for (unsigned step = 0; step + 1 < replicas; step++) {
        struct chunk in = chunk_of(world, (rank + replicas - step) % replicas);
        pass_on(replica, chunk_of(world, (rank + replicas - step + 1) % replicas), in,
                values + in.begin);
    }
}

/* ---- rounds ---- */

static double timed(struct replica *replica, void (*reduce)(struct replica *replica))
{
    pthread_barrier_wait(&replica->world->barrier);
    double began = measure_now();
    reduce(replica);
    pthread_barrier_wait(&replica->world->barrier); /* the slowest replica counts */
    return measure_now() - began;
}

static void run_rounds(struct replica *replica)
{
    struct world *world = replica->world;

    for (unsigned i = 0; i <= world->rounds; i++) {
        double exact = timed(replica, reduce_exactly), ring = timed(replica, reduce_in_a_ring);
        if (replica->rank != 0 || i == 0) /* skip the first round: cold memory */
            continue;
        samples_add(&world->exact, exact);
        samples_add(&world->ring, ring);
        samples_add(&world->ratio, exact / ring);
    }
}

/* ---- setting up ---- */

static void open_mesh(struct replica *replica)
{
    struct world *world = replica->world;
    struct mesh_peer peers[REPLICAS_MAX];
    struct mesh_options options = {.job = "bench",
                                   .generation = 1,
                                   .rank = replica->rank,
                                   .peers = peers,
                                   .listener = world->listeners[replica->rank],
                                   .failure_timeout_ns = 10 * NS_PER_SECOND,
                                   .checksums = world->links == LINKS_CHECKSUMS,
                                   .connect_timeout_ns = OPEN_NS};
    struct error error = {0};

    for (unsigned i = 0; i < world->replicas; i++) {
        if (i == replica->rank)
            continue;
        struct mesh_peer *peer = &peers[options.peer_count++];
        *peer = (struct mesh_peer){.rank = i, .same_node = world->links == LINKS_LOCAL};
        memcpy(peer->address, world->addresses[i], ADDRESS_SIZE);
    }
    if (mesh_open(&options, -1, &replica->mesh, &error))
        measure_die("%s", error.text);
    check(carrier_mesh_new(replica->mesh, &replica->carrier), "making a carrier");
}

static float *gradient(size_t count, unsigned seed)
{
    float *values = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);

    if (!values)
        measure_die("no memory for a gradient");
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i + seed) % 97) * 1e-6f;
    return values;
}

static void take_memory(struct replica *replica)
{
    struct world *world = replica->world;
    const struct kernel_options options = {.thread_count = 1};
    struct error error = {0};

    assert(world->replicas >= 2);
    replica->kernel = kernel_cpu();
    if (replica->kernel->open(&options, &replica->device, &error))
        measure_die("%s", error.text);
    for (unsigned i = 0; i < world->replicas; i++) {
        unsigned first = world->lanes * i / world->replicas;
        replica->ranks[i] = i;
        lane_tree_own(
            replica->owners,
            (struct lane_tree_span){first, world->lanes * (i + 1) / world->replicas - first}, i);
    }
    unsigned count = lane_tree_subtrees(world->lanes, replica->owners, replica->rank, NULL, 0);
    for (unsigned i = 0; i < count; i++)
        replica->subtrees[i] = gradient(world->count, i);
    replica->incoming = gradient(world->count / world->replicas + 1, 0);
    const struct reduce_group group = {.carrier = replica->carrier,
                                       .lanes = world->lanes,
                                       .member_count = world->replicas,
                                       .self = replica->rank,
                                       .ranks = replica->ranks,
                                       .owners = replica->owners,
                                       .add = add,
                                       .context = replica};
    check(reduce_bucket_new(&group, world->count, &replica->bucket), "making a bucket");
}

static void *run_replica(void *argument)
{
    struct replica *replica = argument;

    open_mesh(replica);
    take_memory(replica);
    run_rounds(replica);
    reduce_bucket_free(replica->bucket);
    carrier_free(replica->carrier);
    mesh_close(replica->mesh);
    replica->kernel->close(replica->device);
    for (unsigned i = 0; i < LANE_TREE_SUBTREES_MAX; i++)
        free(replica->subtrees[i]);
    free(replica->incoming);
    return NULL;
}

static void run_world(struct world *world)
{
    struct replica replicas[REPLICAS_MAX] = {0};

    pthread_barrier_init(&world->barrier, NULL, world->replicas);
    for (unsigned i = 0; i < world->replicas; i++) {
        struct error error = {0};
        if (mesh_listen("127.0.0.1:0", &world->listeners[i], &error))
            measure_die("%s", error.text);
        check(mesh_listener_address(&world->listeners[i], world->addresses[i]), "listening");
    }
    for (unsigned i = 0; i < world->replicas; i++) {
        replicas[i] = (struct replica){.world = world, .rank = i, .ring_tag = RING_TAG};
        check(-pthread_create(&replicas[i].thread, NULL, run_replica, &replicas[i]),
              "starting a thread");
    }
    for (unsigned i = 0; i < world->replicas; i++) {
        pthread_join(replicas[i].thread, NULL);
        mesh_listener_close(&world->listeners[i]);
    }
    pthread_barrier_destroy(&world->barrier);
}

static void measure_world(struct measure *measure, unsigned replicas, unsigned lanes, unsigned mib,
                          unsigned rounds)
{
    static struct world world;
    char key[64];

    world = (struct world){.replicas = replicas,
                           .lanes = lanes,
                           .rounds = rounds,
                           .count = ((size_t)mib << 20) / sizeof(float)};
    run_world(&world);
    printf("%u replicas, %2u lanes, %3u MiB: exact %7.1f ms, ring %7.1f ms, ratio %.2f "
           "(10-90%%: %.2f-%.2f)\n",
           replicas, lanes, mib, 1e3 * samples_median(&world.exact),
           1e3 * samples_median(&world.ring), samples_median(&world.ratio),
           samples_quantile(&world.ratio, 0.1), samples_quantile(&world.ratio, 0.9));
    fflush(stdout);
    snprintf(key, sizeof(key), "replicas_%u_lanes_%u_mib_%u_ratio", replicas, lanes, mib);
    measure_samples(measure, key, &world.ratio);
    snprintf(key, sizeof(key), "replicas_%u_lanes_%u_mib_%u_exact_seconds", replicas, lanes, mib);
    measure_samples(measure, key, &world.exact);
}

/* Measure the cost of links: the same reduction over each kind, in turns. */
static void measure_links(struct measure *measure, unsigned rounds)
{
    static struct world world;
    struct samples seals = {0}, local = {0};
    double seconds[LINKS_COUNT] = {0};

    for (unsigned turn = 0; turn < SEAL_TURNS; turn++) {
        for (unsigned links = 0; links < LINKS_COUNT; links++) {
            world = (struct world){.replicas = 2,
                                   .lanes = 8,
                                   .rounds = rounds,
                                   .links = links,
                                   .count = ((size_t)SEAL_MIB << 20) / sizeof(float)};
            run_world(&world);
            seconds[links] = samples_median(&world.exact);
        }
        samples_add(&seals, seconds[LINKS_AUTHENTICATED] / seconds[LINKS_CHECKSUMS]);
        samples_add(&local, seconds[LINKS_AUTHENTICATED] / seconds[LINKS_LOCAL]);
    }
    printf("2 replicas,  8 lanes, %3u MiB: authenticated %7.1f ms, checksums %7.1f ms, within one "
           "node %7.1f ms (last of %u turns)\n",
           SEAL_MIB, 1e3 * seconds[LINKS_AUTHENTICATED], 1e3 * seconds[LINKS_CHECKSUMS],
           1e3 * seconds[LINKS_LOCAL], SEAL_TURNS);
    printf("  authenticated to checksums %.2f (10-90%%: %.2f-%.2f), to one node %.2f "
           "(10-90%%: %.2f-%.2f)\n",
           samples_median(&seals), samples_quantile(&seals, 0.1), samples_quantile(&seals, 0.9),
           samples_median(&local), samples_quantile(&local, 0.1), samples_quantile(&local, 0.9));
    measure_samples(measure, "authenticated_ratio", &seals);
    measure_samples(measure, "local_ratio", &local);
}

static const struct usage_option known[] = {
    {"--rounds", "N", "reductions of each size (15)"},
};

int main(int argc, char **argv)
{
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    unsigned rounds = measure_count(argc, argv, "--rounds", 15);
    struct measure *measure = measure_begin(
        "reduce", "the exact reduction along the lane tree beside a plain ring, on 127.0.0.1", argc,
        argv);

    for (unsigned replicas = 2; replicas <= REPLICAS_MAX; replicas += 2)
        for (unsigned mib = 8; mib <= 64; mib *= 8)
            for (unsigned lanes = 8; lanes <= 12; lanes += 4)
                measure_world(measure, replicas, lanes, mib, rounds);
    measure_links(measure, rounds);
    return measure_end(measure);
}
