/* One checkpoint on this node. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/io/io.h"
#include "checkpoint/remote/remote.h"

struct checkpoint_local {
    const struct io *io;
    const char *folder; /* the job's checkpoint folder on this node */
    const char *node;   /* this one */
    uint64_t step, generation;
    bool links_nothing; /* a repair: a link to an older checkpoint may be of the damaged file */
    struct checkpoint_remote *remote;
};
