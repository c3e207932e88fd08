#include "worker/session/start_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "comm/mesh/frame.h"

struct start_watch {
    const struct worker_options *options;
    uint64_t instance;
    struct control_server *control;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all members below, and the order of reports */
    pthread_cond_t changed;
    bool ending;
    const char *doing;                                    /* NULL: no call is in progress */
    char noted[REPORT_TEXT_SIZE], sent[REPORT_TEXT_SIZE]; /* "": nothing was noted; not sent yet */
    uint64_t generation, began_ns, report_ns, processor_ms;
    bool reported;
};

static uint64_t processor_ms(void)
{
    struct timespec used = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / NS_PER_MS;
}

/* Rarely enough for etcd, and often enough that this worker does not count as hung. */
static uint64_t pause_ns(const struct start_watch *watch)
{
    return TIMEOUTS_START_REPORT * watch->options->failure_timeout_ns;
}

/* Return true, and the text, if there was progress since the last report. */
static bool describe(struct start_watch *watch, uint64_t now_ns, char ret_text[REPORT_TEXT_SIZE])
{
    uint64_t used_ms = processor_ms();

    if (watch->noted[0]) {
        strcpy(ret_text, watch->noted);
        return strcmp(watch->noted, watch->sent) != 0;
    }
    snprintf(ret_text, REPORT_TEXT_SIZE, "%s (%.0f s, of which the processor %.1f s)", watch->doing,
             (double)(now_ns - watch->began_ns) / 1e9, (double)used_ms / 1e3);
    bool progress = used_ms != watch->processor_ms;
    watch->processor_ms = used_ms;
    return progress;
}

static void report(struct start_watch *watch, uint64_t now_ns)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    char text[REPORT_TEXT_SIZE];

    watch->report_ns = now_ns + pause_ns(watch);
    if (!message || !describe(watch, now_ns, text))
        return;
    strcpy(watch->sent, text);
    watch->reported = true;
    message->type = CONTROL_STATUS;
    message->status = (struct worker_report){
        .slot = watch->options->slot,
        .instance = watch->instance,
        .phase = WORKER_STARTING,
        .cause = CAUSE_STARTS,
        .generation = watch->generation,
        .links = frame_version(),
    };
    strcpy(message->status.text, text);
    log_info("this worker %s", text);
    control_server_send(watch->control, message);
}

static void wait_until(struct start_watch *watch, uint64_t due_ns)
{
    const struct timespec due = {.tv_sec = (time_t)(due_ns / NS_PER_SECOND),
                                 .tv_nsec = (long)(due_ns % NS_PER_SECOND)};

    (void)pthread_cond_timedwait(&watch->changed, &watch->lock, &due);
}

static void *run(void *argument)
{
    struct start_watch *watch = argument;

    pthread_mutex_lock(&watch->lock);
    while (!watch->ending) {
        uint64_t now_ns = clock_monotonic_ns();
        if (!watch->doing)
            pthread_cond_wait(&watch->changed, &watch->lock);
        else if (now_ns < watch->report_ns)
            wait_until(watch, watch->report_ns);
        else
            report(watch, now_ns);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static void init_locks(struct start_watch *watch)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void destroy(struct start_watch *watch)
{
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

int start_watch_new(const struct worker_options *options, uint64_t instance,
                    struct control_server *control, struct start_watch **ret_watch)
{
    struct start_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return -ENOMEM;
    *watch = (struct start_watch){.options = options, .instance = instance, .control = control};
    init_locks(watch);
    int status = -pthread_create(&watch->thread, NULL, run, watch);
    if (status)
        destroy(watch);
    else
        *ret_watch = watch;
    return status;
}

void start_watch_free(struct start_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ending = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    destroy(watch);
}

void start_watch_begin(struct start_watch *watch, uint64_t generation, const char *doing)
{
    pthread_mutex_lock(&watch->lock);
    watch->generation = generation;
    watch->doing = doing;
    watch->noted[0] = watch->sent[0] = '\0';
    watch->reported = false;
    watch->began_ns = clock_monotonic_ns();
    watch->report_ns = watch->began_ns + pause_ns(watch) / 4;
    watch->processor_ms = processor_ms();
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
}

void start_watch_note(struct start_watch *watch, const char *text)
{
    pthread_mutex_lock(&watch->lock);
    snprintf(watch->noted, sizeof(watch->noted), "%s", text);
    pthread_mutex_unlock(&watch->lock);
}

bool start_watch_end(struct start_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->doing = NULL;
    bool reported = watch->reported;
    pthread_mutex_unlock(&watch->lock);
    return reported;
}
