/*
 * A reduction's members, jobs and sums, and the oracle: the sequential tree over all lanes. The
 * test provides the carrier between the members.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/lanes/lane_tree.h"
#include "comm/reduce/reduce.h"
#include "lib/comm/mesh_harness.h"

#define MEMBERS_MAX 12
#define LANES_MAX   13
#define COUNT_MAX   1200
#define BUCKETS     3

struct job {
    unsigned lanes, members;
    unsigned ranks[MEMBERS_MAX]; /* member -> rank: not in order, not always the same */
    uint16_t owners[LANES_MAX];  /* lane -> member */
    uint64_t number;
};

/** reduce_add() - add two arrays, for the lane tree */
void reduce_add(void *context, float *output, const float *a, const float *b, size_t count);

/* Make values of very different magnitudes: almost every order of addition gives other bits. */
void reduce_make_lane(float *values, uint64_t job, unsigned bucket, unsigned lane, size_t count);

/** reduce_sum_subtree() - sum the lanes below @node, as the oracle does */
void reduce_sum_subtree(float *result, uint64_t job, unsigned bucket, struct lane_tree_span node,
                        size_t count);

/* Deal lanes to members, differently for every job: uneven ranges, or any lane to any member;
   members are any of @ranks. */
void reduce_make_job(struct job *job, uint64_t number, unsigned lanes, unsigned members,
                     unsigned ranks);

struct own_sums {
    unsigned count;
    float values[LANE_TREE_SUBTREES_MAX][COUNT_MAX];
    float *pointers[LANE_TREE_SUBTREES_MAX];
};

struct member {
    struct carrier *carrier;
    unsigned rank;
    unsigned wrong; /* cases that were not equal */
    int code;
    pthread_t thread;
    struct own_sums sums[BUCKETS];
};

/** reduce_run_job() - run one member's part of @job. Return: 0, or the carrier's code */
int reduce_run_job(struct member *member, const struct job *job);
