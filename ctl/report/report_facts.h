/* Compute the numbers of `firnctl report` from a run's metrics and events. */
#pragma once

#include "ctl/cluster/event_list.h"
#include "ctl/cluster/history.h"

#define REPORT_REASON_SIZE 256

struct report_generation {
    uint64_t generation, first_step, last_step; /* steps that it was the first to commit */
    unsigned stages, replicas;
    double pause_ms; /* before it; NaN: unknown */
    char reason[REPORT_REASON_SIZE];
    uint64_t steps_lost; /* committed before, recomputed by this generation */
};

struct report_facts {
    uint64_t steps_committed, steps_lost;
    uint64_t first_step; /* with a known line; above 1 if older lines are gone or elsewhere */
    double loss_first, loss_last;         /* NaN: unknown */
    double val_loss_first, val_loss_last; /* NaN: never evaluated */
    double seconds, step_seconds_mean, tokens_per_second;
    double step_ms_total; /* of step_count steps, from first_ns and first_tokens on */
    uint64_t step_count, first_ns, last_ns, first_tokens, last_tokens;
    unsigned frozen_layers;                  /* at the end */
    uint64_t frozen_loaded, frozen_computed; /* samples, as far as known (ctl/cluster/history.h) */
    uint64_t checkpoints;                    /* number of checkpoint events */
    struct report_generation *generations;   /* ascending */
    size_t generation_count;
};

void report_facts_init(struct report_facts *facts);
/** report_facts_take() - add the next committed step, in order. Return: 0 or -ENOMEM */
int report_facts_take(struct report_facts *facts, const struct history_step *step) CHECK_RESULT;
/** report_facts_finish() - add the events, after the last step. Return: 0 or -ENOMEM */
int report_facts_finish(struct report_facts *facts, const struct event_list *events) CHECK_RESULT;
void report_facts_done(struct report_facts *facts);
