/*
 * Fake worker processes that follow the protocol (cluster.h). The state of a fake worker is one
 * number per unit: the last step applied to it. Every assertion here is a guarantee of the
 * protocol.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/elastic/cluster_types.h"

/** fake_at() - return the living worker on a slot, or NULL */
struct fake_worker *fake_at(struct cluster *cluster, const char *node, unsigned slot);

/** fake_inbox_put() - deliver an event about @worker to its agent after a delay */
void fake_inbox_put(struct cluster *cluster, struct fake_worker *worker,
                    enum agent_event_type type);

/** fake_say() - report @phase to the agent, with the rest of the status */
void fake_say(struct cluster *cluster, struct fake_worker *worker, enum worker_phase phase);

/** fake_exit() - end the worker with @code */
void fake_exit(struct cluster *cluster, struct fake_worker *worker, int code);

/** fake_reports_unit() - return whether the worker's report has a state of @unit */
bool fake_reports_unit(const struct fake_worker *worker, unsigned unit);

/** fake_told() - carry out an agent's action on the worker */
void fake_told(struct cluster *cluster, struct fake_worker *worker,
               const struct agent_action *action);

/** fake_in() - return whether the worker is in @generation, doing @activity */
bool fake_in(const struct fake_worker *worker, uint64_t generation, enum fake_activity activity);

/** fake_act() - let the worker take its next step */
void fake_act(struct cluster *cluster, struct fake_worker *worker);
