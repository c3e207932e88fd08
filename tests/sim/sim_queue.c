/*
 * The event queue: a binary heap of events by time, then by the order of posting.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "sim/sim.h"

struct sim_event {
    uint64_t at_ns, order;
    const struct sim_pause *whose;
    void (*fire)(void *context);
    void *context;
    size_t place;
};

void *sim_allocate(size_t count, size_t size_bytes)
{
    void *memory = calloc(count, size_bytes);
    assert(memory);
    return memory;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(struct sim *sim, size_t place, struct sim_event *event)
{
    sim->heap[place] = event;
    event->place = place;
}

static void rise(struct sim *sim, struct sim_event *event)
{
    size_t place = event->place;
    while (place > 0 && before(event, sim->heap[(place - 1) / 2])) {
        put(sim, place, sim->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(sim, place, event);
}

static void sink(struct sim *sim, struct sim_event *event)
{
    size_t place = event->place;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child + 1 < sim->event_count && before(sim->heap[child + 1], sim->heap[child]))
            child++;
        if (child >= sim->event_count || !before(sim->heap[child], event))
            break;
        put(sim, place, sim->heap[child]);
        place = child;
    }
    put(sim, place, event);
}

static void enter(struct sim *sim, struct sim_event *event)
{
    if (sim->event_count == sim->event_room) {
        sim->event_room = MAX(2 * sim->event_room, (size_t)256);
        sim->heap = realloc(sim->heap, sim->event_room * sizeof(struct sim_event *));
        assert(sim->heap);
    }
    event->order = sim->posted++;
    event->place = sim->event_count++;
    sim->heap[event->place] = event;
    rise(sim, event);
}

static void leave(struct sim *sim, struct sim_event *event)
{
    struct sim_event *last = sim->heap[--sim->event_count];
    if (last == event)
        return;
    put(sim, event->place, last);
    rise(sim, last);
    sink(sim, last);
}

struct sim_event *sim_post(struct sim *sim, uint64_t at_ns, const struct sim_pause *whose,
                           void (*fire)(void *context), void *context)
{
    struct sim_event *event = sim_allocate(1, sizeof(*event));
    event->at_ns = MAX(at_ns, sim->now_ns);
    event->whose = whose;
    event->fire = fire;
    event->context = context;
    enter(sim, event);
    return event;
}

void sim_cancel(struct sim *sim, struct sim_event *event)
{
    if (!event)
        return;
    leave(sim, event);
    free(event);
}

void *sim_cancel_one(struct sim *sim, void (*fire)(void *context))
{
    for (size_t i = 0; i < sim->event_count; i++) {
        void *context = sim->heap[i]->context;
        if (sim->heap[i]->fire != fire)
            continue;
        sim_cancel(sim, sim->heap[i]);
        return context;
    }
    return NULL;
}

bool sim_step(struct sim *sim)
{
    if (sim->event_count == 0)
        return false;
    struct sim_event *event = sim->heap[0];
    leave(sim, event);
    sim->now_ns = event->at_ns;
    if (event->whose && event->whose->until_ns > sim->now_ns) {
        event->at_ns = event->whose->until_ns; /* events that wait for the pause keep their order */
        enter(sim, event);
        return true;
    }
    void (*fire)(void *) = event->fire;
    void *context = event->context;
    free(event);
    sim->fired++;
    fire(context);
    return true;
}

void sim_queue_free(struct sim *sim)
{
    while (sim->event_count > 0)
        free(sim->heap[--sim->event_count]);
    free(sim->heap);
}

uint64_t sim_random(struct sim *sim, enum sim_stream stream, uint64_t below)
{
    struct sim_random *random = &sim->random[stream];
    if (random->left < 2) {
        philox_block(random->key, random->counter++, 0, random->words);
        random->left = 4;
    }
    uint64_t high = random->words[--random->left], low = random->words[--random->left];
    return (high << 32 | low) % below;
}

bool sim_chance(struct sim *sim, enum sim_stream stream, unsigned percent)
{
    return sim_random(sim, stream, 100) < percent;
}

uint64_t sim_soon(struct sim *sim, uint64_t least_us, uint64_t most_us)
{
    return sim->now_ns +
           (least_us + sim_random(sim, STREAM_DELAYS, most_us - least_us + 1)) * NS_PER_US;
}

/* SplitMix64's finalizer over both words: changes in any bit reach every bit. */
uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x7f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void sim_tell(const struct sim *sim, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%10.6f ", (double)sim->now_ns / 1e9);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list arguments;
    if (sim->failed)
        return;
    sim->failed = true;
    va_start(arguments, format);
    int used =
        snprintf(sim->failure, sizeof(sim->failure), "at %.3f s: ", (double)sim->now_ns / 1e9);
    vsnprintf(sim->failure + used, sizeof(sim->failure) - (size_t)used, format, arguments);
    va_end(arguments);
    sim_trace(sim, "VIOLATION %s", sim->failure);
}

/* Drop the daemons' logs: they are for operators, and the trace has its own messages. */
static void ignore_log(enum log_level level, const char *message, const struct log_field *fields,
                       size_t field_count, void *context)
{
    (void)fields;
    (void)field_count;
    (void)context;
    if (sim_now && level <= LOG_LEVEL_WARNING)
        sim_trace(sim_now, "log: %s", message);
}

void sim_drop_logs(void)
{
    log_set_sink(ignore_log, NULL);
}
