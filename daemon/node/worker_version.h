/*
 * What a node says of the version of its programs, so that leaders plan over nodes that understand
 * each other (elastic/plan/protocol.h).
 */
#pragma once

#include "daemon/core/daemon.h"

/** worker_version_describe() - fill @self->links, which the installed firn-worker is asked for, and
 * what this firnd speaks; what cannot be found out stays 0, with a warning */
void worker_version_describe(const struct config *config, struct node_record *self);
