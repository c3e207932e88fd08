/*
 * Measure this node's CPU slots, for the planner. firn-worker measures one slot with its threads:
 * all slots of a node are alike, and measuring several at once would slow each of them down.
 *
 * Registration does not wait: firnd starts the measurement, continues, and publishes the rates when
 * they arrive. They are kept in the file "cpu-rates" of the data folder for as long as processor,
 * threads, kernels and version of firn are the same; delete the file to measure again.
 */
#pragma once

#include "daemon/config/config.h"
#include "membership/kv/records.h"
#include "membership/transport/loop.h"

struct cpu_rates;

struct cpu_rates_options {
    const struct loop *loop;
    const struct config *config;
    const char *numerics_identity; /* borrowed until cpu_rates_start() returns */
    /* Called once, on the loop, when the measurement ends; NULL: it failed. Never called from
     * within cpu_rates_start(), nor after cpu_rates_free(). */
    void (*measured)(void *context, const struct record_rates *rates);
    void *context;
};

/** cpu_rates_parse() - parse a line of `firn-worker rates cpu:THREADS`
 * (worker/device/slot_benchmark.h). Return: 0; -EINVAL: malformed, *@ret_rates is unchanged */
int cpu_rates_parse(const char *line, struct record_rates *ret_rates) CHECK_RESULT;

/** cpu_rates_recall() - read kept rates of such slots
 * Return: 0; -ENOENT: none, *@ret_rates is unchanged */
int cpu_rates_recall(const struct config *config, const char *numerics_identity,
                     struct record_rates *ret_rates) CHECK_RESULT;

/** cpu_rates_start() - measure a slot in a separate process. A failed measurement is logged;
 * plans then assume the rates of a usual processor.
 * Return: 0; -ENOMEM; errno of the process or of the loop */
int cpu_rates_start(const struct cpu_rates_options *options,
                    struct cpu_rates **ret_rates) CHECK_RESULT;

/** cpu_rates_free() - end a measurement in flight; NULL allowed */
void cpu_rates_free(struct cpu_rates *rates);
