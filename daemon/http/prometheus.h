/*
 * firnd's metrics for Prometheus (GET /metrics), text format version 0.0.4.
 *
 * A node reports itself and the workers that it runs. Values of a whole job (loss, speed) are
 * reported only by the node of rank 0, and every job's state only by the leader, so sums over nodes
 * count nothing twice. Unknown values are omitted.
 */
#pragma once

#include "base/bytes.h"
#include "base/compiler.h"

struct daemon;

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/** prometheus_append() - append all current values. Return: 0 or -ENOMEM (@body may have a part) */
int prometheus_append(const struct daemon *daemon, struct bytes *body) CHECK_RESULT;
