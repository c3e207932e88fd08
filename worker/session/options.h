/* What firnd tells a worker when it starts it: everything but the plan, which comes over the
 * socket. */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "kernels/backend.h"

#define OPTIONS_PATH_SIZE 512

struct worker_options {
    char job[NAME_SIZE];
    char node[NAME_SIZE];
    unsigned slot;
    unsigned thread_count;
    enum kernel_backend device;             /* what the slot is: --device cpu, cuda or cuda:INDEX */
    unsigned device_index;                  /* of those that this process sees */
    char listen[ADDRESS_SIZE];              /* of the links */
    char socket_path[OPTIONS_PATH_SIZE];    /* where firnd finds this worker */
    char spec_path[OPTIONS_PATH_SIZE];      /* the job as JSON */
    char job_dir[OPTIONS_PATH_SIZE];        /* this node's folder of the job: metrics */
    char checkpoint_dir[OPTIONS_PATH_SIZE]; /* the job's checkpoint folder */
    char
        digests_dir[OPTIONS_PATH_SIZE]; /* what this node knows of data (model/data/data_digests.h);
                                           "": nothing is kept */
    uint64_t failure_timeout_ns;
    bool link_checksums;   /* will do for links (comm/mesh/frame_seal.h) */
    bool device_digests;   /* of what NCCL moves are compared (comm/carrier/carrier_digest.h) */
    bool link_any_address; /* links from addresses that are not of the plan, too (comm/mesh/mesh.h)
                            */
};

/** worker_options_parse() - 0; 1: help or the version was asked for and printed; -EINVAL (@error
 * says which flag)
 */
int worker_options_parse(int argc, char **argv, struct worker_options *ret_options,
                         struct error *error) CHECK_RESULT;
