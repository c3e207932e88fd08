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

static struct report_generation *find_or_add(struct report_facts *facts, uint64_t generation)
{
    for (size_t i = 0; i < facts->generation_count; i++)
        if (facts->generations[i].generation == generation)
            return &facts->generations[i];
    struct report_generation *list =
        reallocarray(facts->generations, facts->generation_count + 1, sizeof(*list));
    if (!list)
        return NULL;
    facts->generations = list;
    struct report_generation *added = &list[facts->generation_count++];
    *added = (struct report_generation){.generation = generation, .pause_ms = NAN};
    return added;
}

static int take_step(struct report_facts *facts, const struct history_step *step)
{
    struct report_generation *generation = find_or_add(facts, step->generation);

    if (!generation)
        return -ENOMEM;
    if (!generation->first_step) {
        generation->first_step = step->step;
        generation->stages = step->stages;
        generation->replicas = step->replicas;
    }
    if (!facts->first_step)
        facts->first_step = step->step;
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

/* The last step that an earlier generation had committed when @event happened. */
static uint64_t committed_before(const struct history *history, const struct event *event)
{
    for (size_t i = history->count; i-- > 0;)
        if (history->steps[i].generation < event->generation &&
            history->steps[i].unix_ns <= event->unix_ns)
            return history->steps[i].step;
    return 0;
}

static int take_generation_event(struct report_facts *facts, const struct history *history,
                                 const struct event *event)
{
    struct report_generation *generation = find_or_add(facts, event->generation);

    if (!generation)
        return -ENOMEM;
    uint64_t before = committed_before(history, event);
    generation->pause_ms = event->pause_ms;
    if (!generation->first_step)
        generation->first_step = event->step + 1;
    take_reason(generation, event->text);
    if (before > event->step)
        generation->steps_lost = before - event->step;
    facts->steps_lost += generation->steps_lost;
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct report_generation *)a)->generation;
    uint64_t y = ((const struct report_generation *)b)->generation;

    return x < y ? -1 : x > y;
}

static void take_speed(struct report_facts *facts, const struct history *history)
{
    double total_ms = 0;

    if (!history->count)
        return;
    const struct history_step *first = &history->steps[0],
                              *last = &history->steps[history->count - 1];
    for (size_t i = 0; i < history->count; i++)
        total_ms += history->steps[i].step_ms;
    facts->step_seconds_mean = total_ms / 1e3 / (double)history->count;
    if (last->unix_ns > first->unix_ns) {
        facts->seconds = (double)(last->unix_ns - first->unix_ns) / (double)NS_PER_SECOND;
        facts->tokens_per_second = (double)(last->tokens - first->tokens) / facts->seconds;
    }
}

int report_facts_make(const struct history *history, const struct event_list *events,
                      struct report_facts *ret_facts)
{
    struct report_facts facts = {.loss_first = NAN,
                                 .loss_last = NAN,
                                 .val_loss_first = NAN,
                                 .val_loss_last = NAN,
                                 .seconds = NAN,
                                 .step_seconds_mean = NAN,
                                 .tokens_per_second = NAN};
    int status = 0;

    for (size_t i = 0; i < history->count && !status; i++)
        status = take_step(&facts, &history->steps[i]);
    for (size_t i = 0; i < events->count && !status; i++) {
        const struct event *event = &events->events[i];
        facts.checkpoints += !strcmp(event->kind, "checkpoint");
        if (!strcmp(event->kind, "training") &&
            !strncmp(event->text, generation_begins, strlen(generation_begins)))
            status = take_generation_event(&facts, history, event);
    }
    take_speed(&facts, history);
    if (facts.generation_count > 1)
        qsort(facts.generations, facts.generation_count, sizeof(*facts.generations), compare);
    if (status)
        report_facts_done(&facts);
    else
        *ret_facts = facts;
    return status;
}
