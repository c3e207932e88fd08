#include "integration/worker_crew.h"
#include "elastic/job/job_spec.h"
#include "elastic/plan/lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/reader.h"
#include "integration/port_block.h"

#define START_SECONDS   30
#define DEVICE_PATIENCE 4
#define COPY_SECONDS    0.001 /* replicas copy their sums as often as what that costs lets them */

static void path_of(const struct crew *crew, unsigned slot, const char *leaf, char ret_path[512])
{
    snprintf(ret_path, 512, "%s/n%u/%s", crew->dir, slot, leaf);
}

static void write_spec(const struct crew *crew)
{
    char path[512];
    struct error error = {0};
    AUTO_JSON json_t *tree = job_spec_encode(&crew->spec);
    AUTO_FREE char *text = json_text(tree);

    snprintf(path, sizeof(path), "%s/spec.json", crew->dir);
    assert_int_equal(file_replace(path, text, strlen(text), 0644, &error), 0);
}

/* The running workers of this process's crew: a test that fails leaves its crew behind. */
static pid_t running[CREW_MAX];

static void kill_those_left(void)
{
    for (unsigned i = 0; i < CREW_MAX; i++)
        if (running[i] > 0)
            kill(running[i], SIGKILL);
}

bool crew_is_large(void)
{
    return getenv("CREW_LARGE");
}

struct job_spec crew_job(const char *name, const char *family, unsigned steps, unsigned lanes,
                         unsigned micro_batches_per_lane)
{
    char text[4096];
    struct job_spec spec;
    struct error error = {0};

    snprintf(text, sizeof(text),
             "{\"name\":\"%s\",\"model\":{%s,\"layers\":3,\"width\":%u,\"context\":%u,"
             "\"vocab\":256},\"data\":{\"format\":\"bytes\",\"path\":\"" CREW_TEXT
             "\",\"validation\":0.1},\"train\":{\"steps\":%u,\"lanes\":%u,"
             "\"micro_batch\":2,\"micro_batches_per_lane\":%u,\"seed\":7,"
             "\"optimizer\":{\"lr\":0.01,\"warmup\":2}},"
             "\"elastic\":{\"freeze\":{\"policy\":\"gradient\",\"every\":5}},"
             "\"checkpoint\":{\"every\":0,\"keep\":9},\"evaluate\":{\"every\":4,\"batches\":2}}",
             name, family, crew_is_large() ? 256 : 32, crew_is_large() ? 64 : 16, steps, lanes,
             micro_batches_per_lane);
    json_t *tree = json_loads(text, 0, NULL);

    assert_non_null(tree);
    if (job_spec_decode(tree, "test", NULL, NULL, &spec, &error))
        fail_msg("%s", error.text);
    json_decref(tree);
    return spec;
}

void crew_init(struct crew *crew, const struct job_spec *spec)
{
    const char *base = getenv("TMPDIR");
    int port;

    memset(crew, 0, sizeof(*crew));
    snprintf(crew->dir, sizeof(crew->dir), "%s/firn-crew-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(crew->dir));
    crew->spec = *spec;
    crew->device = getenv("CREW_DEVICE") ? getenv("CREW_DEVICE") : "cpu";
    assert_int_equal(atexit(kill_those_left), 0);
    port = port_block_take(&crew->port_lock);
    assert_true(port > 0);
    crew->port = (unsigned)port;
    for (unsigned i = 0; i < CREW_MAX; i++)
        crew->workers[i].socket = -1;
    write_spec(crew);
}

void crew_kill(struct crew *crew, unsigned slot, int signal)
{
    if (crew->workers[slot].pid > 0 && !crew->workers[slot].exited)
        kill(crew->workers[slot].pid, signal);
}

static void reap(struct crew_worker *worker, int flags)
{
    if (worker->pid <= 0 || worker->exited ||
        waitpid(worker->pid, &worker->exit_status, flags) != worker->pid)
        return;
    worker->exited = true;
    for (unsigned i = 0; i < CREW_MAX; i++)
        if (running[i] == worker->pid)
            running[i] = 0;
}

void crew_done(struct crew *crew)
{
    char command[512];

    for (unsigned i = 0; i < CREW_MAX; i++) {
        crew_kill(crew, i, SIGKILL);
        reap(&crew->workers[i], 0);
        if (crew->workers[i].socket >= 0)
            close(crew->workers[i].socket);
        bytes_done(&crew->workers[i].received);
    }
    close(crew->port_lock);
    snprintf(command, sizeof(command), "rm -rf '%s'", crew->dir);
    assert_int_equal(system(command), 0);
}

static bool connect_worker(const struct crew *crew, unsigned slot, int *ret_socket)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/w%u.sock", crew->dir, slot);
    if (connect(connection, (struct sockaddr *)&address, sizeof(address))) {
        close(connection);
        return false;
    }
    *ret_socket = connection;
    return true;
}

/* Several processes open a GPU at once, and its libraries compile for each shape: allow workers
 * more time, and wait longer for them. */
static bool is_on_gpu(const struct crew *crew)
{
    return strncmp(crew->device, "cuda", 4) == 0;
}

static void run_worker(const struct crew *crew, unsigned slot)
{
    char number[16], node[16], listen[32], socket_path[300], spec[300], job_dir[300],
        checkpoints[300], log[300];

    snprintf(number, sizeof(number), "%u", slot);
    snprintf(node, sizeof(node), "n%u", slot);
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", crew->port + slot);
    snprintf(socket_path, sizeof(socket_path), "%s/w%u.sock", crew->dir, slot);
    snprintf(spec, sizeof(spec), "%s/spec.json", crew->dir);
    snprintf(job_dir, sizeof(job_dir), "%s/n%u", crew->dir, slot);
    snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", crew->dir);
    snprintf(log, sizeof(log), "%s/w%u.log", crew->dir, slot);
    if (!freopen(log, "a", stderr) || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(126);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    if (getenv("CREW_NCCL")) /* workers that share a GPU may then use NCCL */
        setenv("NCCL_HOSTID", node, 1);
    execl(FIRN_WORKER, "firn-worker", "--job", crew->spec.name, "--node", node, "--slot", number,
          "--device", crew->device, "--listen", listen, "--socket", socket_path, "--spec", spec,
          "--job-dir", job_dir, "--checkpoint-dir", checkpoints, "--failure-timeout-ms",
          is_on_gpu(crew) ? "3000" : "1500", NULL);
    _exit(127);
}

/* Print the workers' logs, which explain a failure, before a test fails. */
static void print_logs(const struct crew *crew)
{
    char command[600];

    snprintf(command, sizeof(command), "tail -n 20 '%s'/*.log >&2", crew->dir);
    if (system(command))
        print_error("no logs\n");
}

static uint64_t patience_ns(const struct crew *crew, unsigned seconds)
{
    return (uint64_t)seconds * (is_on_gpu(crew) ? DEVICE_PATIENCE : 1) * NS_PER_SECOND;
}

void crew_spawn(struct crew *crew, unsigned slot)
{
    struct crew_worker *worker = &crew->workers[slot];
    uint64_t deadline_ns = clock_monotonic_ns() + patience_ns(crew, START_SECONDS);

    if (worker->socket >= 0)
        close(worker->socket);
    bytes_done(&worker->received);
    *worker = (struct crew_worker){.socket = -1};
    worker->pid = fork();
    assert_true(worker->pid >= 0);
    if (worker->pid == 0)
        run_worker(crew, slot);
    running[slot] = worker->pid;
    crew->count = MAX(crew->count, slot + 1);
    while (!connect_worker(crew, slot, &worker->socket)) {
        reap(worker, WNOHANG);
        if (worker->exited || clock_monotonic_ns() > deadline_ns) {
            print_logs(crew);
            fail_msg("slot %u did not start", slot);
        }
        poll(NULL, 0, 5);
    }
}

struct plan *crew_plan(struct crew *crew, unsigned stage_count, unsigned replica_count)
{
    struct plan *plan = plan_new();
    unsigned units = job_model_unit_count(&crew->spec.model), lanes = crew->spec.train.lanes;

    assert_non_null(plan);
    plan->generation = ++crew->generation;
    snprintf(plan->job, sizeof(plan->job), "%s", crew->spec.name);
    snprintf(plan->change.text, sizeof(plan->change.text), "test");
    for (unsigned i = 0; i < 64; i++)
        plan->links.key[i] = "0123456789abcdef"[(i + plan->generation) % 16];
    plan->layout.stage_count = stage_count;
    plan->layout.replica_count = replica_count;
    plan->layout.worker_count = stage_count * replica_count;
    plan->layout.workers = calloc(CREW_MAX, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(stage_count + 1, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(replica_count + 1, sizeof(unsigned));
    if (strcmp(crew->device, "cpu") == 0)
        plan->layout.copy_seconds = COPY_SECONDS;
    for (unsigned i = 0; i <= stage_count; i++)
        plan->layout.stage_first_unit[i] = units * i / stage_count;
    for (unsigned i = 0; i <= replica_count; i++)
        plan->layout.replica_first_lane[i] = lanes * i / replica_count;
    for (unsigned i = 0; i < plan->layout.worker_count; i++) {
        snprintf(plan->layout.workers[i].node, sizeof(plan->layout.workers[i].node), "n%u", i);
        plan->layout.workers[i].slot = i;
        snprintf(plan->layout.workers[i].address, sizeof(plan->layout.workers[i].address),
                 "127.0.0.1:%u", crew->port + i);
    }
    return plan;
}

void crew_share_lanes(const struct crew *crew, struct plan *plan)
{
    const struct job_training *train = &crew->spec.train;
    struct plan_layout *layout = &plan->layout;
    bool shares = false;

    layout->lane_micro_batches = train->micro_batches_per_lane;
    layout->replica_head = calloc(layout->replica_count + 1, sizeof(unsigned));
    assert_true(lanes_share(train->lanes, train->micro_batches_per_lane, NULL,
                            layout->replica_count, 0, layout->replica_first_lane,
                            layout->replica_head));
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        shares = shares || layout->replica_head[replica] > 0;
    assert_true(shares);
}

static void send_message(struct crew *crew, unsigned slot, const struct control_message *message)
{
    struct bytes packed = {0};

    assert_int_equal(control_pack(message, &packed), 0);
    if (crew->workers[slot].socket >= 0 &&
        send(crew->workers[slot].socket, packed.data, packed.size_bytes, MSG_NOSIGNAL) < 0)
        print_message("slot %u is gone\n", slot);
    bytes_done(&packed);
}

void crew_send(struct crew *crew, const struct plan *plan, enum control_type type)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    message->type = type;
    message->plan = (struct plan *)(uintptr_t)plan;
    for (unsigned slot = 0; slot < crew->count; slot++)
        if (!crew->workers[slot].exited)
            send_message(crew, slot, message);
}

static void take(struct crew *crew, unsigned slot, struct control_message *message)
{
    struct crew_worker *worker = &crew->workers[slot];

    if (message->type == CONTROL_STATUS)
        worker->status = message->status;
    if (message->type == CONTROL_PROGRESS)
        worker->progress = message->progress;
    if (message->type == CONTROL_EVENT || message->type == CONTROL_ALARM)
        print_message("  slot %u: %s\n", slot, message->text);
    if (message->type == CONTROL_CHECKPOINT) {
        message->committed = true;
        send_message(crew, slot, message);
    }
    control_message_done(message);
}

static void read_worker(struct crew *crew, unsigned slot)
{
    struct crew_worker *worker = &crew->workers[slot];
    uint8_t chunk[65536];
    ssize_t size = recv(worker->socket, chunk, sizeof(chunk), MSG_DONTWAIT);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        close(worker->socket);
        worker->socket = -1;
        reap(worker, 0);
        return;
    }
    assert_int_equal(bytes_append(&worker->received, chunk, (size_t)size), 0);
    for (;;) {
        AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
        struct error error = {0};
        int status = control_unpack(&worker->received, message, &error);
        if (status < 0)
            print_error("%s\n", error.text);
        assert_true(status >= 0);
        if (status == 0)
            return;
        take(crew, slot, message);
    }
}

void crew_pump(struct crew *crew, bool (*done)(const struct crew *crew, void *context),
               void *context, unsigned seconds)
{
    uint64_t deadline_ns = clock_monotonic_ns() + patience_ns(crew, seconds);

    while (!done(crew, context)) {
        struct pollfd polled[CREW_MAX];
        for (unsigned slot = 0; slot < crew->count; slot++)
            polled[slot] = (struct pollfd){.fd = crew->workers[slot].socket, .events = POLLIN};
        poll(polled, crew->count, 50);
        for (unsigned slot = 0; slot < crew->count; slot++) {
            if (polled[slot].revents && crew->workers[slot].socket >= 0)
                read_worker(crew, slot);
            reap(&crew->workers[slot], WNOHANG);
        }
        if (clock_monotonic_ns() > deadline_ns) {
            print_logs(crew);
            fail_msg("the crew did not get there within %u s", seconds);
        }
    }
}

bool crew_finished(const struct crew *crew, void *context)
{
    (void)context;
    for (unsigned slot = 0; slot < crew->count; slot++)
        if (!crew->workers[slot].exited)
            return false;
    return true;
}

static const char *bits_of(const json_t *line, const char *key)
{
    const char *bits = json_string_value(json_object_get(line, key));

    return bits ? bits : "-";
}

static void read_metrics(const struct crew *crew, unsigned slot, struct bytes *ret_text)
{
    char path[512];
    struct error error = {0};

    path_of(crew, slot, "metrics.jsonl", path);
    if (file_read(path, 1u << 26, ret_text, &error) < 0) {
        print_logs(crew);
        fail_msg("%s", error.text);
    }
}

unsigned crew_count_lines(const struct crew *crew, unsigned slot, const char *key)
{
    struct bytes text = {0};
    unsigned count = 0;

    read_metrics(crew, slot, &text);
    for (char *line = strtok((char *)text.data, "\n"); line; line = strtok(NULL, "\n")) {
        AUTO_JSON json_t *tree = json_loads(line, 0, NULL);
        assert_non_null(tree);
        count += json_integer_value(json_object_get(tree, key)) != 0;
    }
    bytes_done(&text);
    return count;
}

char *crew_exact(const struct crew *crew, unsigned slot)
{
    struct bytes text = {0}, exact = {0};

    read_metrics(crew, slot, &text);
    for (char *line = strtok((char *)text.data, "\n"); line; line = strtok(NULL, "\n")) {
        AUTO_JSON json_t *tree = json_loads(line, 0, NULL);
        assert_non_null(tree);
        assert_int_equal(bytes_append_format(
                             &exact, "%lld %s %s %lld %s %s\n",
                             (long long)json_integer_value(json_object_get(tree, "step")),
                             bits_of(tree, "loss_bits"), bits_of(tree, "grad_norm_bits"),
                             (long long)json_integer_value(json_object_get(tree, "frozen_layers")),
                             bits_of(tree, "val_loss_bits"), bits_of(tree, "final_val_loss_bits")),
                         0);
    }
    bytes_done(&text);
    assert_int_equal(bytes_append(&exact, "", 1), 0);
    return (char *)exact.data;
}

void crew_digest(const struct crew *crew, uint64_t step, char ret_text[33])
{
    char folder[512], path[1024];
    struct manifest manifest = {0};
    struct error error = {0};

    snprintf(folder, sizeof(folder), "%s/checkpoints", crew->dir);
    checkpoint_path(folder, step, path);
    if (manifest_load(path, NULL, &manifest, &error)) {
        print_logs(crew);
        fail_msg("%s", error.text);
    }
    hash128_text(manifest.state_digest, ret_text);
    manifest_done(&manifest);
}

void crew_count_turns(const char *exact, unsigned *ret_frozen, unsigned *ret_thawed)
{
    unsigned long before = 0, now;
    int words;

    *ret_frozen = *ret_thawed = 0;
    for (const char *line = exact; *line; line = strchr(line, '\n') + 1) {
        words = 0; /* the step and two numbers as bits come first */
        assert_int_equal(sscanf(line, "%*s %*s %*s %n", &words), 0);
        assert_true(words > 0);
        now = strtoul(line + words, NULL, 10);
        *ret_frozen += now > before;
        *ret_thawed += now < before;
        before = now;
    }
}

void crew_expect_same(const char *alone, const char *exact, const char *digest_alone,
                      const char *digest)
{
    unsigned line = 0;

    if (strcmp(alone, exact) != 0) {
        while (*alone && strcspn(alone, "\n") == strcspn(exact, "\n") &&
               strncmp(alone, exact, strcspn(alone, "\n") + 1) == 0) {
            alone += strcspn(alone, "\n") + 1;
            exact += strcspn(exact, "\n") + 1;
            line++;
        }
        fail_msg(
            "WRONG: after %u steps that are equal (step, loss, norm, frozen, validation, final): alone '%.*s', here "
            "'%.*s'",
            line, (int)strcspn(alone, "\n"), alone, (int)strcspn(exact, "\n"), exact);
    }
    if (strcmp(digest_alone, digest) != 0)
        fail_msg("WRONG: all losses and norms are equal, the last state is not: %s, here %s",
                 digest_alone, digest);
}
