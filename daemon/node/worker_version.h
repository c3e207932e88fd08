/*
 * Publish the protocol versions of a node's programs, so that leaders plan only over compatible
 * nodes (elastic/plan/versions.h).
 */
#pragma once

#include "membership/kv/records.h"

struct config;

/** worker_version_describe() - fill @self->links, asked from the installed firn-worker, and the
 * protocols of this firnd; an unknown version stays 0, with a warning */
void worker_version_describe(const struct config *config, struct node_record *self);
