/*
 * How fast this node's CPU slots are, for the planner. firn-worker measures one slot with its
 * threads: the slots of a node are alike, and several measured at once would slow each other.
 *
 * Registration does not wait for it: firnd starts the measurement, goes on, and registers the
 * answer when it comes. The answer is kept in the file "cpu-rates" of the data folder for as long
 * as processor, threads, kernels and version of firn are the same; delete it to have it measured
 * again.
 */
#pragma once

#include "daemon/config/config.h"
#include "membership/kv/records.h"
#include "membership/transport/loop.h"

struct cpu_rates;

struct cpu_rates_options {
    const struct loop *loop;
    const struct config *config;
    const char *arithmetic; /* borrowed until cpu_rates_start() returns */
    /* Once, on the loop, when the answer has come; NULL: none has. Not from within
     * cpu_rates_start(), and not after cpu_rates_free(). */
    void (*measured)(void *context, const struct record_rates *rates);
    void *context;
};

/** cpu_rates_parse() - read a line of `firn-worker rates cpu:THREADS`
 * (worker/device/slot_benchmark.h) Return: 0; -EINVAL: it is no such line, *@ret_rates is as it was
 */
int cpu_rates_parse(const char *line, struct record_rates *ret_rates) CHECK_RESULT;

/** cpu_rates_recall() - read what was measured of such slots before
 * Return: 0; -ENOENT: nothing, *@ret_rates is as it was */
int cpu_rates_recall(const struct config *config, const char *arithmetic,
                     struct record_rates *ret_rates) CHECK_RESULT;

/** cpu_rates_start() - measure a slot in a process of its own. A measurement that fails is logged;
 * plans then take the rates of a usual processor.
 * Return: 0; -ENOMEM; errno of the process or of the loop */
int cpu_rates_start(const struct cpu_rates_options *options,
                    struct cpu_rates **ret_rates) CHECK_RESULT;

/** cpu_rates_free() - end a measurement that is still under way; NULL allowed */
void cpu_rates_free(struct cpu_rates *rates);
