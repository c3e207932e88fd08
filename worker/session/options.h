/* The command line by which firnd starts a worker: everything but the plan, which arrives on the
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
    enum kernel_backend device;             /* of the slot: --device cpu, cuda or cuda:INDEX */
    unsigned device_index;                  /* among those that this process sees */
    char listen[ADDRESS_SIZE];              /* of the links */
    char socket_path[OPTIONS_PATH_SIZE];    /* where firnd connects */
    char spec_path[OPTIONS_PATH_SIZE];      /* the job as JSON */
    char job_dir[OPTIONS_PATH_SIZE];        /* this node's folder of the job, for metrics */
    char checkpoint_dir[OPTIONS_PATH_SIZE]; /* the job's checkpoint folder */
    char digests_dir[OPTIONS_PATH_SIZE];    /* known data digests (model/data/data_digests.h); "":
                                               not kept */
    uint64_t failure_timeout_ns;
    bool link_checksums;   /* seal frames with checksums only (comm/mesh/frame_seal.h) */
    bool device_digests;   /* compare digests of NCCL transfers (comm/carrier/carrier_digest.h) */
    bool link_any_address; /* accept links from addresses outside the plan (comm/mesh/mesh.h) */
};

/** worker_options_parse() - parse the command line; 0; 1: help or version was requested and
 * printed; -EINVAL (@error names the flag)
 */
int worker_options_parse(int argc, char **argv, struct worker_options *ret_options,
                         struct error *error) CHECK_RESULT;
