/*
 * NCCL without GPUs: the calls that comm/carrier/nccl.c looks up (fake_nccl.c). A test sets the
 * simulated behaviour through `fake_nccl`.
 *
 * Ranks are threads of one process, device memory is host memory. The essential behaviour of NCCL
 * is kept: a stream carries out one group after the other. A group ends when all of its moves have
 * met their counterparts, of one communicator and one pair in order, and only then is data copied.
 * So a rank that posts in an order that would hang on GPUs hangs here. The first moves of a pair in
 * a direction connect it: until both sides have posted one, the communicator stays in progress and
 * the group is not on its stream. Moves of one byte connect and are not counted. An abort ends the
 * communicator's groups without their data, and the other side's groups stay pending.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct fake_group;

/* The target of a cudaStream_t: owned by the test, all zero at first. */
struct fake_stream {
    struct fake_group *head, *tail; /* the head is under way */
    atomic_ulong posted, finished;  /* groups */
};

struct fake_nccl {
    int version;
    atomic_bool connected;    /* every pair is, from the beginning */
    atomic_int ctas_max;      /* of the last communicator's configuration; 0: it had none */
    atomic_bool together;     /* a communicator is up when all of its ranks have joined */
    atomic_int polls_to_join; /* polls of a new communicator until it is up; -1: never */
    atomic_int polls_to_post; /* the same for a group of moves */
    atomic_int init_result, post_result;
    atomic_int fault;           /* the state of every communicator from now on; 0: none */
    atomic_bool abort_hangs;    /* until it is false again */
    atomic_bool destroy_hangs;  /* the same for ncclCommDestroy */
    atomic_bool finalize_hangs; /* a communicator that is finalized stays in progress */
    atomic_int destroyed;       /* communicators, after they were finalized */
    atomic_int wrong_ends;      /* destroyed before they were finalized, or with moves under way */
    atomic_bool no_id;          /* ncclGetUniqueId fails */
    atomic_int alive;           /* communicators made less those aborted or destroyed */
    atomic_int aborts_outside;  /* aborts that were not part of a group */
    atomic_int largest_abort;   /* communicators aborted by one group */
    atomic_int flip;            /* the move whose data arrive with a bit flipped, from 1; 0: none */
    atomic_int copied;          /* moves that met */
    atomic_int wrong;           /* moves that met one of another size */
    atomic_ulong moved;         /* bytes */
};
