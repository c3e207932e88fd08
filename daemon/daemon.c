#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/http_server.h"
#include "daemon/job.h"
#include "daemon/leading.h"
#include "daemon/suspicion.h"

#define NODE_TTL_S      10
#define LEADER_TTL_S    3
#define PASSWORD_MAX    4096
#define GOODBYE_US      1000000
#define ETCD_TIMEOUT_NS NS_PER_SECOND /* well below the leader's time to live */

void daemon_job_dir(const struct daemon *daemon, const char *job, char ret_path[CONFIG_TEXT_SIZE])
{
    snprintf(ret_path, CONFIG_TEXT_SIZE, "%.*s/jobs/%.*s", CONFIG_TEXT_SIZE - NAME_SIZE - 16,
             daemon->config->data_dir, NAME_SIZE - 1, job);
}

static void leave(struct daemon *daemon, int exit_code)
{
    daemon->exit_code = exit_code;
    sd_event_exit(daemon->loop.event, exit_code);
}

static void on_deregistered(void *context)
{
    struct daemon *daemon = context;

    leave(daemon, daemon->exit_code);
}

static int on_goodbye_deadline(sd_event_source *source, uint64_t usec, void *context)
{
    (void)source;
    (void)usec;
    on_deregistered(context); /* the leases end by themselves */
    return 0;
}

/* Give up leadership and registration first, so that nobody has to wait for the leases. */
static void say_goodbye(struct daemon *daemon, int exit_code)
{
    struct registry *registry = daemon->registry;

    daemon->exit_code = exit_code;
    if (!registry)
        return; /* said already */
    daemon->registry = NULL;
    election_stop(daemon->election);
    daemon->election = NULL;
    registry_stop(registry, on_deregistered, daemon);
    if (sd_event_add_time_relative(daemon->loop.event, NULL, CLOCK_MONOTONIC, GOODBYE_US, 0,
                                   on_goodbye_deadline, daemon) < 0)
        leave(daemon, exit_code);
}

/* ---- this node's record ---- */

void daemon_publish_self(struct daemon *daemon)
{
    AUTO_JSON json_t *tree = node_record_encode(&daemon->self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text || (daemon->registry && registry_update(daemon->registry, text)))
        log_error("no memory to publish this node's record");
}

static uint64_t slot_memory(const struct config *config)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

    if (config->slot_memory_mb)
        return (uint64_t)config->slot_memory_mb << 20;
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / config->slots : 0;
}

static void describe_self(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct node_record *self = &daemon->self;

    snprintf(self->host, sizeof(self->host), "%s", config->address);
    snprintf(self->http, sizeof(self->http), "%s", config->http);
    self->incarnation = daemon->incarnation;
    snprintf(self->version, sizeof(self->version), "%s", FIRN_VERSION);
    self->link_port = config->link_port;
    self->slot_count = config->slots;
    for (unsigned slot = 0; slot < config->slots; slot++) {
        snprintf(self->slots[slot].kind, sizeof(self->slots[slot].kind), "cpu");
        self->slots[slot].thread_count = config->threads;
        self->slots[slot].memory_bytes = slot_memory(config);
        self->slots[slot].speed = 1.0;
    }
}

static void set_draining(struct daemon *daemon, bool draining, const char *why)
{
    if (daemon->self.draining == draining)
        return;
    daemon->self.draining = draining;
    log_info("this node is %s: %s", draining ? "draining" : "ready again", why);
    for (unsigned slot = 0; !draining && slot < daemon->self.slot_count; slot++)
        daemon->self.slots[slot].bad[0] =
            '\0'; /* an operator who resumes a node has looked at it */
    daemon_publish_self(daemon);
}

/* ---- reconciling with the mirror ---- */

static void sync_drain(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, daemon->config->cluster));

    snprintf(key + length, sizeof(key) - length, "drains/%s", daemon->config->node);
    bool wanted = mirror_find(&daemon->mirror, key) != NULL;
    set_draining(daemon, wanted || daemon->stopping,
                 daemon->stopping ? "firnd is stopping" : "an operator asked for it");
}

static struct job *find_job(const struct daemon *daemon, const char *name)
{
    for (struct job *job = daemon->jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

static void open_job(struct daemon *daemon, const char *name, const struct mirror_entry *spec_entry)
{
    AUTO_JSON json_t *tree = NULL;
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    struct error error = {0};
    struct job *job;

    if (!spec ||
        json_parse(spec_entry->value, strlen(spec_entry->value), spec_entry->key, &tree, &error) ||
        job_spec_decode(tree, spec_entry->key, NULL, NULL, spec, &error) ||
        job_open(daemon, name, spec, spec_entry->create_revision, &job, &error)) {
        log_error("job %s cannot take place on this node: %s", name, error.text);
        return;
    }
    job->next = daemon->jobs;
    daemon->jobs = job;
}

static void open_new_jobs(struct daemon *daemon)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(&daemon->mirror, keys_cluster(prefix, daemon->config->cluster), &entries);

    for (size_t i = 0; i < count; i++) {
        char name[NAME_SIZE], leaf[128];
        if (keys_match_job(entries[i].key, daemon->config->cluster, name, leaf) &&
            !strcmp(leaf, "spec") && !find_job(daemon, name))
            open_job(daemon, name, &entries[i]);
    }
}

static void sync_jobs(struct daemon *daemon)
{
    struct job **link = &daemon->jobs;
    char key[KV_KEY_MAX];

    while (*link) {
        struct job *job = *link;
        if (mirror_find(&daemon->mirror,
                        keys_job(key, daemon->config->cluster, job->name, "spec"))) {
            job_sync(job);
        } else {
            job_gone(job);
            if (job_idle(job)) {
                *link = job->next;
                job_close(job);
                continue;
            }
        }
        link = &job->next;
    }
}

static void finish_stopping(struct daemon *daemon)
{
    for (const struct job *job = daemon->jobs; job; job = job->next)
        if (!job_idle(job))
            return;
    if (daemon->registry)
        log_info("everything is handed over; leaving");
    say_goodbye(daemon, EXIT_SUCCESS);
}

static int on_reconcile(sd_event_source *source, void *context)
{
    struct daemon *daemon = context;

    (void)source;
    if (daemon->mirror.revision == 0)
        return 0;
    sync_drain(daemon);
    open_new_jobs(daemon);
    sync_jobs(daemon);
    leading_run(daemon->leading);
    if (daemon->stopping)
        finish_stopping(daemon);
    return 0;
}

void daemon_wake(struct daemon *daemon)
{
    sd_event_source_set_enabled(daemon->reconcile, SD_EVENT_ONESHOT);
}

/* ---- the store ---- */

static void observe_leader(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(&daemon->mirror, keys_leader(key, daemon->config->cluster));

    if (!daemon->election)
        return;
    if (!entry) {
        election_observe(daemon->election, NULL, daemon->mirror.revision);
        return;
    }
    const struct kv_entry seen = {
        .key = entry->key,
        .value = entry->value,
        .value_bytes = strlen(entry->value),
        .create_revision = entry->create_revision,
        .mod_revision = entry->mod_revision,
        .lease = entry->lease,
    };
    election_observe(daemon->election, &seen, daemon->mirror.revision);
}

static void on_snapshot(void *context, const struct kv_entry *entries, size_t count,
                        int64_t revision)
{
    struct daemon *daemon = context;

    if (mirror_snapshot(&daemon->mirror, entries, count, revision))
        log_error("no memory for the cluster's keys: this node's picture is incomplete");
    observe_leader(daemon);
    daemon_wake(daemon);
}

static void on_events(void *context, const struct kv_event *events, size_t count, int64_t revision)
{
    struct daemon *daemon = context;
    char leader_key[KV_KEY_MAX];
    bool leader_changed = false;

    keys_leader(leader_key, daemon->config->cluster);
    for (size_t i = 0; i < count; i++) {
        if (mirror_apply(&daemon->mirror, &events[i], revision))
            log_error("no memory for a key of the cluster: this node's picture is incomplete");
        leader_changed |= !strcmp(events[i].entry.key, leader_key);
    }
    if (leader_changed)
        observe_leader(daemon);
    daemon_wake(daemon);
}

static void on_store_state(void *context, const struct error *error)
{
    struct daemon *daemon = context;

    if (error && !daemon->store_away)
        log_warning("etcd is away: %s; training goes on, changes wait", error->text);
    else if (!error && daemon->store_away)
        log_info("etcd is back");
    daemon->store_away = error != NULL;
    daemon_wake(daemon);
}

static void on_registered(void *context, enum registry_state state, const struct error *error)
{
    struct daemon *daemon = context;

    daemon->registered = state == REGISTRY_REGISTERED;
    switch (state) {
    case REGISTRY_REGISTERED:
        log_info("node %s is registered in cluster %s with %u slots", daemon->config->node,
                 daemon->config->cluster, daemon->config->slots);
        sd_notifyf(0, "READY=1\nSTATUS=registered in cluster %s, %u slots", daemon->config->cluster,
                   daemon->config->slots);
        break;
    case REGISTRY_CONNECTING:
        log_warning("not registered: %s; trying on",
                    error ? error->text : "no answer from etcd yet");
        sd_notifyf(0, "STATUS=not registered: %s", error ? error->text : "no answer from etcd yet");
        break;
    case REGISTRY_REFUSED:
        log_error("%s", error ? error->text : "this node's name is taken");
        leave(daemon, EXIT_FAILURE);
        break;
    }
}

static void on_elected(void *context, bool leads, const char *leader)
{
    struct daemon *daemon = context;

    if (leads)
        log_info("this node leads now");
    else
        log_debug("the leader is %s", leader[0] ? leader : "not known");
    daemon_wake(daemon);
}

/* ---- signals ---- */

static int on_drain_deadline(sd_event_source *source, uint64_t usec, void *context)
{
    struct daemon *daemon = context;

    (void)source;
    (void)usec;
    log_warning("not everything was handed over within %llu s; the workers that are left are ended",
                daemon->config->drain_timeout_ns / NS_PER_SECOND);
    for (struct job *job = daemon->jobs; job; job = job->next)
        for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
            if (job->processes[slot])
                worker_process_kill(job->processes[slot]);
    say_goodbye(daemon, EXIT_FAILURE);
    return 0;
}

static int on_stop_signal(sd_event_source *source, const struct signalfd_siginfo *info,
                          void *context)
{
    struct daemon *daemon = context;

    (void)source;
    if (info->ssi_signo == SIGUSR2) {
        log_info("leaving for an upgrade: the workers go on, the next firnd takes them over");
        daemon->abandoning = true;
        leave(daemon, EXIT_SUCCESS);
        return 0;
    }
    if (daemon->stopping) {
        log_warning("told to stop again: not waiting any longer");
        return on_drain_deadline(NULL, 0, daemon);
    }
    log_info("stopping: this node's work is handed over at the next step boundary");
    sd_notify(0, "STOPPING=1\nSTATUS=draining");
    daemon->stopping = true;
    if (sd_event_add_time_relative(daemon->loop.event, &daemon->drain_deadline, CLOCK_MONOTONIC,
                                   daemon->config->drain_timeout_ns / NS_PER_US, 0,
                                   on_drain_deadline, daemon) < 0)
        return on_drain_deadline(NULL, 0, daemon);
    if (daemon->mirror.revision == 0)
        leave(daemon, EXIT_SUCCESS);
    daemon_wake(daemon);
    return 0;
}

static int watch_signals(struct daemon *daemon)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR2};
    sigset_t set;
    int status = 0;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
        sigaddset(&set, signals[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return -errno;
    for (size_t i = 0; status >= 0 && i < ARRAY_COUNT(signals); i++)
        status = sd_event_add_signal(daemon->loop.event, NULL, signals[i], on_stop_signal, daemon);
    return status < 0 ? status : 0;
}

/* ---- start and end ---- */

static int read_password(const struct config *config, char *ret_password, size_t size,
                         struct error *error)
{
    struct bytes text = {0};
    int status;

    if (!config->etcd_password_file[0])
        return 0;
    status = file_read(config->etcd_password_file, size - 1, &text, error);
    if (!status) {
        snprintf(ret_password, size, "%s", (const char *)text.data);
        ret_password[strcspn(ret_password, "\r\n")] = '\0';
    }
    bytes_done(&text);
    return status;
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static int open_store(struct daemon *daemon, struct error *error)
{
    const struct config *config = daemon->config;
    char password[PASSWORD_MAX] = "";
    int status = read_password(config, password, sizeof(password), error);
    const struct etcd_options options = {
        .endpoints = config->endpoints,
        .request_timeout_ns = ETCD_TIMEOUT_NS,
        .user = or_null(config->etcd_user),
        .password = or_null(password),
        .ca_file = or_null(config->etcd_ca),
        .certificate_file = or_null(config->etcd_certificate),
        .key_file = or_null(config->etcd_key),
    };

    if (!status)
        status = etcd_new(&daemon->loop.loop, &options, &daemon->etcd, error);
    explicit_bzero(password, sizeof(password));
    if (status)
        return status;
    daemon->kv = etcd_kv(daemon->etcd);
    return outbox_new(&daemon->loop.loop, daemon->kv, &daemon->outbox);
}

static int start_membership(struct daemon *daemon, uint64_t takeover)
{
    static const struct kv_watch_callbacks watch_callbacks = {
        .snapshot = on_snapshot,
        .events = on_events,
        .state = on_store_state,
    };
    const struct config *config = daemon->config;
    const struct loop *loop = &daemon->loop.loop;
    const struct registry_options registry_options = {.cluster = config->cluster,
                                                      .node = config->node,
                                                      .ttl_seconds = NODE_TTL_S,
                                                      .incarnation = daemon->incarnation,
                                                      .takeover = takeover};
    const struct election_options election_options = {
        .cluster = config->cluster, .node = config->node, .ttl_seconds = LEADER_TTL_S};
    char prefix[KV_KEY_MAX];
    AUTO_JSON json_t *tree = node_record_encode(&daemon->self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? 0 : -ENOMEM;

    if (!status)
        status = registry_start(loop, daemon->kv, &registry_options, text, on_registered, daemon,
                                &daemon->registry);
    if (!status)
        status = election_start(loop, daemon->kv, &election_options, on_elected, daemon,
                                &daemon->election);
    if (!status)
        status = leading_new(daemon, &daemon->leading);
    if (!status)
        status = suspicion_new(daemon, &daemon->suspicion);
    if (!status)
        status = daemon->kv->watch(daemon->kv->context, keys_cluster(prefix, config->cluster),
                                   &watch_callbacks, daemon, &daemon->watch);
    return status;
}

/*
 * One firnd a data folder: the lock says that the daemon which wrote the incarnation file before is
 * dead, so its registration may be taken over at once instead of after its lease.
 */
static int lock_data_dir(struct daemon *daemon, uint64_t *ret_takeover, int *ret_lock,
                         struct error *error)
{
    const struct config *config = daemon->config;
    char path[CONFIG_TEXT_SIZE + 32], text[32] = "";

    int status = file_make_directories(config->data_dir, 0755, error);
    if (status)
        return status;
    snprintf(path, sizeof(path), "%s/incarnation", config->data_dir);
    *ret_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*ret_lock < 0)
        return error_set(error, -errno, "opening %s: %s", path, strerror(errno));
    if (flock(*ret_lock, LOCK_EX | LOCK_NB))
        return error_set(error, -EBUSY, "another firnd uses %s: one data_dir a daemon",
                         config->data_dir);
    if (pread(*ret_lock, text, sizeof(text) - 1, 0) > 0)
        *ret_takeover = strtoull(text, NULL, 16) & REGISTRY_INCARNATION_MAX;
    snprintf(text, sizeof(text), "%016" PRIx64, daemon->incarnation);
    if (pwrite(*ret_lock, text, 16, 0) != 16)
        return error_set(error, -errno, "writing %s: %s", path, strerror(errno));
    return 0;
}

static int daemon_open(struct daemon *daemon, int *ret_lock, struct error *error)
{
    char workers[CONFIG_TEXT_SIZE + 16];
    uint64_t takeover = 0;
    int status = event_loop_init(&daemon->loop);

    if (status)
        return error_set(error, status, "no event loop: %s", strerror(-status));
    if (getrandom(&daemon->incarnation, sizeof(daemon->incarnation), 0) !=
        sizeof(daemon->incarnation))
        return error_set(error, -EIO, "no random numbers from the kernel");
    daemon->incarnation = MAX(daemon->incarnation & REGISTRY_INCARNATION_MAX, 1ul);
    describe_self(daemon);
    status = lock_data_dir(daemon, &takeover, ret_lock, error);
    snprintf(workers, sizeof(workers), "%s/workers", daemon->config->run_dir);
    if (!status)
        status = file_make_directories(workers, 0750, error);
    if (!status)
        status = watch_signals(daemon);
    if (!status)
        status = sd_event_add_defer(daemon->loop.event, &daemon->reconcile, on_reconcile, daemon);
    if (status < 0)
        return error->code ? status : error_set(error, status, "starting: %s", strerror(-status));
    sd_event_source_set_enabled(daemon->reconcile, SD_EVENT_OFF);
    sd_event_set_watchdog(daemon->loop.event, true);
    status = http_server_start(daemon, &daemon->http, error);
    if (!status)
        status = open_store(daemon, error);
    return status ? status : start_membership(daemon, takeover);
}

static void daemon_done(struct daemon *daemon)
{
    leading_free(daemon->leading);
    suspicion_free(daemon->suspicion);
    while (daemon->jobs) {
        struct job *job = daemon->jobs;
        daemon->jobs = job->next;
        job_close(job);
    }
    http_server_stop(daemon->http);
    if (daemon->watch)
        daemon->kv->unwatch(daemon->kv->context, daemon->watch);
    election_stop(daemon->election);
    registry_abandon(daemon->registry);
    outbox_free(daemon->outbox);
    etcd_free(daemon->etcd);
    mirror_done(&daemon->mirror);
    sd_event_source_disable_unref(daemon->reconcile);
    sd_event_source_disable_unref(daemon->drain_deadline);
    event_loop_done(&daemon->loop);
}

int daemon_run(const struct config *config)
{
    AUTO_FREE struct daemon *daemon = calloc(1, sizeof(*daemon));
    AUTO_CLOSE int lock = -1;
    struct error error = {0};
    int status;

    if (!daemon)
        return EXIT_FAILURE;
    daemon->config = config;
    status = daemon_open(daemon, &lock, &error);
    if (status) {
        log_error("%s", error.text[0] ? error.text : strerror(-status));
        daemon->exit_code = EXIT_FAILURE;
    } else {
        log_info("firnd %s starts: node %s, cluster %s, etcd %s", FIRN_VERSION, config->node,
                 config->cluster, config->endpoints);
        if (sd_event_loop(daemon->loop.event) < 0)
            daemon->exit_code = EXIT_FAILURE;
    }
    daemon_done(daemon);
    return daemon->exit_code;
}
