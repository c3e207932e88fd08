/*
 * firnd's numbers for Prometheus (GET /metrics): its text format, version 0.0.4.
 *
 * A node tells of itself and of the workers that it runs. What is one number for a whole job (loss,
 * speed) is told by the node of rank 0 alone, and every job's state by the leader, so sums over
 * nodes count nothing twice. A value that is not known is left out.
 */
#pragma once

#include "base/bytes.h"
#include "daemon/core/daemon.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/** prometheus_append() - everything, as of now. Return: 0 or -ENOMEM (@body may have a part) */
int prometheus_append(const struct daemon *daemon, struct bytes *body) CHECK_RESULT;
