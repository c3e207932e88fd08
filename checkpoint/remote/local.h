/* One checkpoint on this node. */
#pragma once

#include <stdint.h>

#include "checkpoint/io/io.h"
#include "checkpoint/remote/remote.h"

struct checkpoint_local {
    const struct io *io;
    const char *folder; /* the job's checkpoint folder on this node */
    const char *node;   /* this one */
    uint64_t step, generation;
    struct checkpoint_remote *remote;
};
