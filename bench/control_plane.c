/*
 * The load of a cluster of many nodes on its etcd: 10, 100 and 1,000 nodes on this machine against
 * one real etcd (with fsync). The nodes are firnd's own code in a few processes
 * (bench/lib/many_nodes.h). Two of the processes have one node each, for the figures of a single
 * node. The workers are simulated (bench/lib/paper_worker.h).
 *
 *   register  all nodes start at once -> all are registered and know the leader
 *   idle      no job
 *   plan      a job is submitted -> every worker is in generation 1, and its node has reported that
 *             to etcd: planned, prepared, published, acknowledged
 *   failure   a worker dies and all others are stuck -> the same for the next generation
 *   steady    a job trains without changes: etcd's requests and writes
 *   leader    all nodes but one resign: the same for the remaining node, which then leads
 *
 * Processor time is reported beside wall time. All nodes and etcd share this machine, so wall time
 * says little about a cluster in which each node has its own machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "bench/lib/etcd_process.h"
#include "bench/lib/many_nodes.h"
#include "bench/lib/measure.h"
#include "bench/lib/usage.h"
#include "elastic/job/job_spec.h"
#include "membership/etcd/etcd.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "membership/transport/poll_loop.h"

#define PROCESSES   5
#define ALONE       2 /* processes with one node each: n0000 and n0001 */
#define JOB         "wide"
#define DEADLINE_NS (40 * NS_PER_SECOND)
#define STEADY_S    10
#define SETTLE_NS   (2 * NS_PER_SECOND) /* for work that the previous phase left */
#define MIB         1048576.0
#define RETRY_NS    (50 * NS_PER_MS)
#define LOOK_NS     (20 * NS_PER_MS) /* between two reads of all reports */
#define AIM_SECONDS 3.0

struct crowd {
    unsigned node_count, process_count;
    unsigned steady_s; /* duration of a phase without changes */
    struct scratch scratch;
    struct etcd_process etcd;
    struct many_state *states; /* one per process; shared memory */
    pid_t processes[PROCESSES];
    int gate, news;
    struct poll_loop *loop;
    struct etcd *client;
    const struct kv *kv;
};

/* ---- requests to etcd, one at a time ---- */

struct question {
    bool done;
    int status;
    bool succeeded;
    size_t entry_count, running_count;
};

/* Return the number of nodes that report a training worker. */
static size_t count_running(const struct kv_result *result)
{
    size_t running = 0;

    for (size_t i = 0; i < result->entry_count; i++)
        running += strstr(result->entries[i].value, "\"phase\":\"running\"") != NULL;
    return running;
}

static void answered(void *context, const struct kv_result *result)
{
    struct question *question = context;

    question->done = true;
    question->status = result->status;
    question->succeeded = result->succeeded;
    question->entry_count = result->entry_count;
    question->running_count = count_running(result);
}

static void await_answer(struct crowd *crowd, struct question *question, int started)
{
    if (started ||
        poll_loop_run(crowd->loop, &question->done, clock_monotonic_ns() + DEADLINE_NS) ||
        question->status)
        measure_die("etcd does not answer");
}

/* Put spec and desired state in one transaction, as firnctl submits a job. */
static void put_job(struct crowd *crowd, json_t *spec, json_t *desired)
{
    char spec_key[KV_KEY_MAX], desired_key[KV_KEY_MAX];
    struct question question = {0};
    struct kv_request *request;
    AUTO_JSON json_t *spec_tree = spec;
    AUTO_JSON json_t *desired_tree = desired;
    AUTO_FREE char *spec_text = spec ? json_text(spec) : NULL;
    AUTO_FREE char *desired_text = desired ? json_text(desired) : NULL;
    const struct kv_operation operations[] = {
        {.type = KV_PUT, .key = keys_job(spec_key, MANY_CLUSTER, JOB, "spec"), .value = spec_text},
        {.type = KV_PUT,
         .key = keys_job(desired_key, MANY_CLUSTER, JOB, "desired"),
         .value = desired_text},
    };

    if (!spec_text || !desired_text)
        measure_die("no memory for the job");
    await_answer(crowd, &question,
                 crowd->kv->txn(crowd->kv->context, NULL, 0, operations, ARRAY_COUNT(operations),
                                answered, &question, &request));
    if (!question.succeeded)
        measure_die("etcd refuses the job");
}

static struct question reports(struct crowd *crowd, uint64_t generation)
{
    char prefix[KV_KEY_MAX];
    struct question question = {0};
    struct kv_request *request;

    await_answer(crowd, &question,
                 crowd->kv->range(crowd->kv->context,
                                  keys_report(prefix, MANY_CLUSTER, JOB, generation, ""), true,
                                  answered, &question, &request));
    return question;
}

/* Wait until etcd serves. A member that has just started refuses connections for a while. */
static void await_etcd(struct crowd *crowd)
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS;
    struct question question = {.status = -ECONNREFUSED};
    struct kv_request *request;
    bool never = false;

    while (question.status && clock_monotonic_ns() < deadline_ns) {
        question = (struct question){0};
        int status =
            crowd->kv->range(crowd->kv->context, "/", false, answered, &question, &request);
        if (status || poll_loop_run(crowd->loop, &question.done, deadline_ns))
            break;
        if (question.status &&
            poll_loop_run(crowd->loop, &never, clock_monotonic_ns() + RETRY_NS) != -ETIMEDOUT)
            break;
    }
    if (question.status || !question.done)
        measure_die("etcd does not answer");
}

/* ---- the crowd ---- */

/* Return the first node of @process. For the index behind the last process: the number of nodes. */
static unsigned first_node(const struct crowd *crowd, unsigned process)
{
    unsigned others = crowd->process_count - ALONE;

    if (process <= ALONE)
        return process;
    return ALONE + (crowd->node_count - ALONE) * (process - ALONE) / others;
}

static void fork_nodes(struct crowd *crowd, unsigned process, int gate)
{
    unsigned first = first_node(crowd, process);
    const struct many_options options = {
        crowd->etcd.url, crowd->scratch.path, first, first_node(crowd, process + 1) - first, gate,
        crowd->news};

    fflush(NULL);
    crowd->processes[process] = fork();
    if (crowd->processes[process] < 0)
        measure_die("fork: %s", strerror(errno));
    if (crowd->processes[process] > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(crowd->gate);
    _exit(many_nodes_run(&options, &crowd->states[process]));
}

static void start_nodes(struct crowd *crowd)
{
    int gate[2];

    crowd->process_count = PROCESSES;
    crowd->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crowd->states = mmap(NULL, PROCESSES * sizeof(*crowd->states), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crowd->news < 0 || crowd->states == MAP_FAILED || pipe2(gate, O_CLOEXEC))
        measure_die("starting nodes: %s", strerror(errno));
    crowd->gate = gate[1];
    for (unsigned i = 0; i < crowd->process_count; i++)
        fork_nodes(crowd, i, gate[0]);
    close(gate[0]);
}

static void stop_nodes(struct crowd *crowd)
{
    close(crowd->gate);
    for (unsigned i = 0; i < crowd->process_count; i++)
        while (waitpid(crowd->processes[i], NULL, 0) < 0 && errno == EINTR)
            ;
    munmap(crowd->states, PROCESSES * sizeof(*crowd->states));
    close(crowd->news);
}

/* The progress of all processes together. */
struct reached {
    unsigned registered, following, leads, running;
    uint64_t generation;
};

static struct reached total(const struct crowd *crowd)
{
    struct reached all = {0};

    for (unsigned i = 0; i < crowd->process_count; i++) {
        const struct many_state *state = &crowd->states[i];
        all.registered += state->registered;
        all.following += state->following;
        all.leads += state->leads;
        if (state->generation > all.generation) {
            all.generation = state->generation;
            all.running = 0;
        }
        all.running += state->generation == all.generation ? state->running : 0;
    }
    return all;
}

static bool all_registered(const struct crowd *crowd, const struct reached *all, uint64_t wanted)
{
    (void)wanted;
    return all->registered == crowd->node_count && all->following == crowd->node_count &&
           all->leads == 1;
}

static bool first_leads(const struct crowd *crowd, const struct reached *all, uint64_t wanted)
{
    (void)wanted;
    return all->leads == 1 && crowd->states[0].leads == 1;
}

static bool all_running(const struct crowd *crowd, const struct reached *all, uint64_t wanted)
{
    return all->generation >= wanted && all->running == crowd->node_count;
}

/* Print the job state that the leader reports, after the awaited state did not come. */
static void tell_state(void *context, const struct kv_result *result)
{
    bool *done = context;

    *done = true;
    for (size_t i = 0; !result->status && i < result->entry_count; i++)
        fprintf(stderr, "%.400s: %.400s\n", result->entries[i].key, result->entries[i].value);
}

static void show_job(struct crowd *crowd)
{
    char key[KV_KEY_MAX];
    struct kv_request *request;
    bool done = false;

    if (crowd->kv->range(crowd->kv->context, keys_job(key, MANY_CLUSTER, JOB, ""), true, tell_state,
                         &done, &request) ||
        poll_loop_run(crowd->loop, &done, clock_monotonic_ns() + DEADLINE_NS))
        fprintf(stderr, "etcd does not answer\n");
}

/* Sleep in poll() until a process reports a change. */
static void await_crowd(struct crowd *crowd, const char *what, uint64_t wanted,
                        bool (*reached)(const struct crowd *crowd, const struct reached *all,
                                        uint64_t wanted))
{
    uint64_t deadline_ns = clock_monotonic_ns() + DEADLINE_NS, count;
    struct reached all = total(crowd);

    while (!reached(crowd, &all, wanted)) {
        uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= deadline_ns)
            show_job(crowd);
        if (now_ns >= deadline_ns)
            measure_die("%s: not within %llu s: %u of %u nodes registered, %u follow, %u lead, %u "
                        "run generation %llu",
                        what, (unsigned long long)(DEADLINE_NS / NS_PER_SECOND), all.registered,
                        crowd->node_count, all.following, all.leads, all.running,
                        (unsigned long long)all.generation);
        struct pollfd news = {.fd = crowd->news, .events = POLLIN};
        poll(&news, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1);
        if (read(crowd->news, &count, sizeof(count)) < 0 && errno != EAGAIN)
            measure_die("the nodes' news: %s", strerror(errno));
        all = total(crowd);
    }
}

static void wait_for(struct crowd *crowd, uint64_t duration_ns)
{
    bool never = false;

    if (poll_loop_run(crowd->loop, &never, clock_monotonic_ns() + duration_ns) != -ETIMEDOUT)
        measure_die("the loop ended early");
}

/* Wait until every worker is in generation @wanted or later, and every node has reported that to
 * etcd. */
static void await_generation(struct crowd *crowd, const char *what, uint64_t wanted)
{
    await_crowd(crowd, what, wanted, all_running);
    while (reports(crowd, total(crowd).generation).running_count < crowd->node_count) {
        wait_for(crowd, LOOK_NS); /* the answer has one report per node: do not poll often */
        await_crowd(crowd, what, wanted, all_running);
    }
}

/* ---- costs ---- */

struct cost {
    double seconds, etcd_cpu, nodes_cpu;
    double alone_cpu[ALONE]; /* of the two nodes with their own process */
    struct etcd_counters counters;
};

static struct cost cost_now(struct crowd *crowd)
{
    struct cost cost = {.seconds = measure_now(), .etcd_cpu = process_cpu(crowd->etcd.pid)};

    for (unsigned i = 0; i < crowd->process_count; i++)
        cost.nodes_cpu += process_cpu(crowd->processes[i]);
    for (unsigned i = 0; i < ALONE; i++)
        cost.alone_cpu[i] = process_cpu(crowd->processes[i]);
    cost.counters = etcd_process_counters(&crowd->etcd, crowd->loop);
    return cost;
}

static void report(struct measure *measure, const struct crowd *crowd, const char *phase,
                   const struct cost *from, const struct cost *to)
{
    char key[64];
    double seconds = to->seconds - from->seconds, etcd = to->etcd_cpu - from->etcd_cpu;
    double nodes = to->nodes_cpu - from->nodes_cpu, each = 1.0 / crowd->node_count;
    double writes = to->counters.proposals - from->counters.proposals;
    double sent = to->counters.sent_bytes - from->counters.sent_bytes;

    double requests = to->counters.requests - from->counters.requests;

    printf("%6u nodes  %-9s %7.2f s; processor: etcd %6.2f s, a node %7.2f ms; a node: %.1f "
           "requests, etcd wrote %.1f and sent %.1f kB\n",
           crowd->node_count, phase, seconds, etcd, 1e3 * nodes * each, requests * each,
           writes * each, sent / 1e3 * each);
    const struct {
        const char *what;
        double value;
    } figures[] = {
        {"seconds", seconds},        {"etcd_cpu_seconds", etcd}, {"node_cpu_seconds", nodes * each},
        {"etcd_requests", requests}, {"etcd_writes", writes},    {"etcd_sent_bytes", sent}};
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        snprintf(key, sizeof(key), "%u_%s_%s", crowd->node_count, phase, figures[i].what);
        measure_number(measure, key, figures[i].value);
    }
}

/* Report the cost of a single node, the leader or a follower, over a time without changes.
 */
static void report_alone(struct measure *measure, const struct crowd *crowd, const char *what,
                         bool leads, const struct cost *from, const struct cost *to)
{
    unsigned process = (crowd->states[0].leads != 0) == leads ? 0 : 1;
    char key[64];
    double cpu =
        (to->alone_cpu[process] - from->alone_cpu[process]) / (to->seconds - from->seconds);
    double resident = process_memory(crowd->processes[process], "VmRSS");
    double peak = process_memory(crowd->processes[process], "VmHWM");

    printf("%6u nodes  firnd as %s: %.2f %% of a core, %.1f MiB resident, %.1f at most\n",
           crowd->node_count, what, 100 * cpu, resident / MIB, peak / MIB);
    snprintf(key, sizeof(key), "%u_%s_core_share", crowd->node_count, what);
    measure_number(measure, key, cpu);
    snprintf(key, sizeof(key), "%u_%s_resident_bytes", crowd->node_count, what);
    measure_number(measure, key, resident);
    snprintf(key, sizeof(key), "%u_%s_peak_bytes", crowd->node_count, what);
    measure_number(measure, key, peak);
}

/* Report the requests of a node to etcd while nothing changes. */
static void report_requests(struct measure *measure, const struct crowd *crowd,
                            const struct cost *from, const struct cost *to)
{
    char key[64];
    double minutes = (to->seconds - from->seconds) / 60 * crowd->node_count;
    double keep_alives = to->counters.keep_alives - from->counters.keep_alives;
    double questions = to->counters.questions - from->counters.questions;
    double others = to->counters.requests - from->counters.requests - keep_alives - questions;

    printf("%6u nodes  a node and minute: %.1f keep-alives of its lease, %.1f times \"does this "
           "watch live\", %.2f other requests\n",
           crowd->node_count, keep_alives / minutes, questions / minutes, others / minutes);
    snprintf(key, sizeof(key), "%u_steady_other_requests_a_minute", crowd->node_count);
    measure_number(measure, key, others / minutes);
}

/* ---- the phases ---- */

static json_t *job_tree(unsigned lanes)
{
    return json_pack(
        "{s:s, s:{s:s, s:i, s:i, s:i, s:i, s:i}, s:{s:s, s:s}, s:{s:i, s:i, s:i, s:i}, s:{s:{s:i}, s:{s:s}}}",
        "name", JOB, "model", "family", "gpt2", "layers", 24, "width", 1024, "heads", 16, "context",
        1024, "vocab", 50257, "data", "format", "bytes", "path", "/data", "train", "steps", 1000000,
        "lanes", (int)lanes, "micro_batch", 4, "micro_batches_per_lane", 8, "elastic", "devices",
        "max", JOB_DEVICES_MAX, "freeze", "policy", "none");
}

static void submit(struct crowd *crowd)
{
    /* Use all slots: 10 stages if the number of nodes is a multiple of 10, else one stage. */
    unsigned stages = crowd->node_count % 10 == 0 ? 10 : 1;
    const struct desired_record desired = {
        .wish = RECORD_RUNNING, .stages = stages, .replicas = crowd->node_count / stages};

    put_job(crowd, job_tree(crowd->node_count / stages), desired_record_encode(&desired));
}

/* Measure a time without changes. @what describes it for the single node, the leader if @leads. */
static void stay_quiet(struct crowd *crowd, struct measure *measure, const char *phase,
                       const char *what, bool leads)
{
    struct cost from, to;

    wait_for(crowd, SETTLE_NS);
    from = cost_now(crowd);
    wait_for(crowd, crowd->steady_s * NS_PER_SECOND);
    to = cost_now(crowd);
    report(measure, crowd, phase, &from, &to);
    report_requests(measure, crowd, &from, &to);
    report_alone(measure, crowd, what, leads, &from, &to);
}

/* Make all nodes but n0000 resign. The job continues. */
static void hand_over_lead(struct crowd *crowd)
{
    for (unsigned i = 1; i < crowd->process_count; i++)
        crowd->states[i].resigned = true;
    await_crowd(crowd, "hand over", 0, first_leads);
}

static void run_phases(struct crowd *crowd, struct measure *measure)
{
    struct cost from = cost_now(crowd), to;
    const char open[PROCESSES] = {0};

    if (write(crowd->gate, open, crowd->process_count) != (ssize_t)crowd->process_count)
        measure_die("the gate: %s", strerror(errno));
    await_crowd(crowd, "register", 0, all_registered);
    to = cost_now(crowd);
    report(measure, crowd, "register", &from, &to);
    double storm = to.seconds - from.seconds;

    stay_quiet(crowd, measure, "idle", "idle", false);
    from = cost_now(crowd);
    submit(crowd);
    await_generation(crowd, "plan", 1);
    to = cost_now(crowd);
    report(measure, crowd, "plan", &from, &to);
    double whole = storm + to.seconds - from.seconds;

    uint64_t generation = total(crowd).generation;
    from = cost_now(crowd);
    for (unsigned i = 0; i < crowd->process_count; i++)
        crowd->states[i].fail_generation = generation;
    await_generation(crowd, "failure", generation + 1);
    to = cost_now(crowd);
    report(measure, crowd, "failure", &from, &to);

    stay_quiet(crowd, measure, "steady", "follower", false);
    hand_over_lead(crowd);
    stay_quiet(crowd, measure, "leader", "leader", true);
    printf("%6u nodes  registered and in generation 1 after %.2f s: %s the aim of %.0f s\n",
           crowd->node_count, whole, whole <= AIM_SECONDS ? "within" : "OVER", AIM_SECONDS);
}

static void measure_crowd(struct measure *measure, unsigned node_count, unsigned steady_s)
{
    struct crowd crowd = {.node_count = node_count, .steady_s = steady_s};
    struct error error = {0};

    /* The files of the nodes are in memory: in a real cluster a thousand nodes do not share a disk.
     */
    scratch_open(&crowd.scratch, "/dev/shm", "firn-bench");
    etcd_process_start(&crowd.etcd);
    crowd.loop = poll_loop_new();
    const struct etcd_options options = {.endpoints = crowd.etcd.url,
                                         .request_timeout_ns = 10 * NS_PER_SECOND};
    if (!crowd.loop || etcd_new(poll_loop_table(crowd.loop), &options, &crowd.client, &error))
        measure_die("etcd's client: %s", error.text);
    crowd.kv = etcd_kv(crowd.client);
    await_etcd(&crowd);
    start_nodes(&crowd);
    run_phases(&crowd, measure);
    stop_nodes(&crowd);
    etcd_free(crowd.client);
    etcd_process_stop(&crowd.etcd);
    poll_loop_free(crowd.loop);
    scratch_close(&crowd.scratch);
}

static void allow_many_connections(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static const struct usage_option known[] = {
    {"--nodes", "N", "only this many (10, 100, then 1000)"},
    {"--steady", "SECONDS", "how long a phase without changes lasts (10)"},
};

int main(int argc, char **argv)
{
    static const unsigned sizes[] = {10, 100, 1000};
    usage_check(argc, argv, known, ARRAY_COUNT(known));
    unsigned only = measure_count(argc, argv, "--nodes", 1);
    unsigned steady_s = measure_count(argc, argv, "--steady", STEADY_S);
    bool one_size = measure_option(argc, argv, "--nodes", NULL);
    struct measure *measure = measure_begin(
        "control_plane", "many nodes against one etcd, all on this machine", argc, argv);

    allow_many_connections();
    if (one_size && only < PROCESSES)
        measure_die("--nodes: %u at least", (unsigned)PROCESSES);
    if (one_size)
        measure_crowd(measure, only, steady_s);
    for (size_t i = 0; !one_size && i < ARRAY_COUNT(sizes); i++)
        measure_crowd(measure, sizes[i], steady_s);
    return measure_end(measure);
}
