/*
 * Metrics list each step once, under the generation that committed it first. The event of a
 * generation has the first step that this generation committed. If that step is below an earlier
 * generation's last step, the difference is the number of steps lost and recomputed.
 */
#include "ctl/report/report_facts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const char generation_begins[] = "generation ";

void report_facts_done(struct report_facts *facts)
{
    free(facts->generations);
    *facts = (struct report_facts){0};
}

void report_facts_init(struct report_facts *facts)
{
    *facts = (struct report_facts){.loss_first = NAN,
                                   .loss_last = NAN,
                                   .val_loss_first = NAN,
                                   .val_loss_last = NAN,
                                   .seconds = NAN,
                                   .step_seconds_mean = NAN,
                                   .tokens_per_second = NAN};
}

/* Return the index of the first generation not below @generation; generation_count: none. */
static size_t find(const struct report_facts *facts, uint64_t generation)
{
    size_t low = 0, high = facts->generation_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (facts->generations[middle].generation < generation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct report_generation *find_or_add(struct report_facts *facts, uint64_t generation)
{
    size_t at = find(facts, generation);

    if (at < facts->generation_count && facts->generations[at].generation == generation)
        return &facts->generations[at];
    struct report_generation *list =
        reallocarray(facts->generations, facts->generation_count + 1, sizeof(*list));
    if (!list)
        return NULL;
    facts->generations = list;
    memmove(&list[at + 1], &list[at], (facts->generation_count++ - at) * sizeof(*list));
    list[at] = (struct report_generation){.generation = generation, .pause_ms = NAN};
    return &list[at];
}

int report_facts_take(struct report_facts *facts, const struct history_step *step)
{
    struct report_generation *generation = find_or_add(facts, step->generation);

    if (!generation)
        return -ENOMEM;
    if (!generation->first_step) {
        generation->first_step = step->step;
        generation->stages = step->stages;
        generation->replicas = step->replicas;
    }
    generation->last_step = step->step;
    if (facts->step_count++ == 0) {
        facts->first_step = step->step;
        facts->first_ns = step->unix_ns;
        facts->first_tokens = step->tokens;
    }
    facts->last_ns = step->unix_ns;
    facts->last_tokens = step->tokens;
    facts->step_ms_total += step->step_ms;
    if (isnan(facts->loss_first))
        facts->loss_first = step->loss;
    facts->loss_last = step->loss;
    if (step->evaluated && isnan(facts->val_loss_first))
        facts->val_loss_first = step->val_loss;
    if (step->evaluated)
        facts->val_loss_last = step->val_loss;
    if (step->final_evaluated)
        facts->val_loss_last = step->final_loss;
    facts->frozen_layers = step->frozen_layers;
    facts->frozen_loaded += step->frozen_loaded;
    facts->frozen_computed += step->frozen_computed;
    facts->steps_committed = step->step;
    return 0;
}

/* Copy the text in the brackets of "generation 3 (node b lost): 3 stages x 2 replicas, pause 140
 * ms".
 */
static void take_reason(struct report_generation *generation, const char *text)
{
    const char *begin = strchr(text, '('), *end = NULL;

    for (const char *at = begin; at && (at = strstr(at, "): ")); at++)
        end = at;
    if (begin && end)
        snprintf(generation->reason, sizeof(generation->reason), "%.*s", (int)(end - begin - 1),
                 begin + 1);
}

/* Return the last step that generations before @generation have committed. */
static uint64_t committed_before(const struct report_facts *facts, uint64_t generation)
{
    uint64_t step = 0;

    for (size_t i = find(facts, generation); i-- > 0 && !step;)
        step = facts->generations[i].last_step;
    return step;
}

static int take_generation_event(struct report_facts *facts, const struct event *event)
{
    struct report_generation *generation = find_or_add(facts, event->generation);

    if (!generation)
        return -ENOMEM;
    uint64_t before = committed_before(facts, event->generation);
    generation->pause_ms = event->pause_ms;
    if (!generation->first_step)
        generation->first_step = event->step + 1;
    take_reason(generation, event->text);
    if (before > event->step)
        generation->steps_lost = before - event->step;
    facts->steps_lost += generation->steps_lost;
    return 0;
}

static void take_speed(struct report_facts *facts)
{
    if (!facts->step_count)
        return;
    facts->step_seconds_mean = facts->step_ms_total / 1e3 / (double)facts->step_count;
    if (facts->last_ns > facts->first_ns) {
        facts->seconds = (double)(facts->last_ns - facts->first_ns) / (double)NS_PER_SECOND;
        facts->tokens_per_second =
            (double)(facts->last_tokens - facts->first_tokens) / facts->seconds;
    }
}

int report_facts_finish(struct report_facts *facts, const struct event_list *events)
{
    int status = 0;

    for (size_t i = 0; i < events->count && !status; i++) {
        const struct event *event = &events->events[i];
        facts->checkpoints += !strcmp(event->kind, "checkpoint");
        if (!strcmp(event->kind, "training") &&
            !strncmp(event->text, generation_begins, strlen(generation_begins)))
            status = take_generation_event(facts, event);
    }
    take_speed(facts);
    return status;
}
