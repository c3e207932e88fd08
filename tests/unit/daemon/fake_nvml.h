/* The simulated state of the library in fake_nvml.c; a test finds it under the name `fake_nvml`. */
#pragma once

#include <stdbool.h>

#define FAKE_GPUS 4

struct fake_nvml {
    int init_code;
    unsigned count;
    struct {
        bool broken; /* its handle is refused */
        bool lost;
        unsigned long long uncorrected;
        unsigned pending_rows, failed_rows, mig;
        int links_to; /* index of the GPU at the end of its NVLink; -1: none, -2: a switch */
        int socket;   /* its processor */
    } gpus[FAKE_GPUS];
    struct {
        unsigned gpu;
        unsigned long long xid;
    } events[8];
    unsigned event_count;
    int initialized; /* calls of init minus shutdown */
};
