/* What the library of fake_nccl.c pretends; a test finds it under the name `fake_nccl`. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct fake_nccl {
    int version;
    atomic_int polls_to_join; /* looks at a new communicator until it is up; -1: never */
    atomic_int polls_to_post; /* the same for a group of moves */
    atomic_int init_result, post_result;
    atomic_int fault;          /* what every communicator's state is from now on; 0: none */
    atomic_bool abort_hangs;   /* until it is false again */
    atomic_int alive;          /* communicators made less those aborted */
    atomic_int aborts_outside; /* aborts that were not part of a group */
    atomic_int largest_abort;  /* communicators aborted by one group */
};
