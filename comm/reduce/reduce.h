/*
 * Exact reduce-scatter and all-gather across the replicas of one stage.
 *
 * Each replica arrives with one f32 buffer per maximal subtree of its lanes
 * (comm/lanes/lane_tree.h). An array of `count` elements is cut into as many shards as there are
 * replicas; the owner of a shard receives all members' subtree sums of it, finishes the tree, and
 * sends the result to all. The work is cut into buckets (one a unit), posted as soon as backward
 * has finished that unit, and finished later, so transfers overlap the rest of backward. The sum is
 * the same to the bit for every replica count.
 *
 * A carrier moves the sums, in its own kind of memory. A function (the kernel's tree_add) does the
 * additions, so that GPU buffers are added on the GPU. With one replica nothing is sent.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "comm/lanes/lane_tree.h"

typedef void (*reduce_add_function)(void *context, float *output, const float *a, const float *b,
                                    size_t count);

/* Allocator of the buffers, if they are not in host memory. */
struct reduce_memory {
    /* 64-byte aligned. Return: 0, -ENOMEM */
    int (*allocate)(void *context, size_t size_bytes, void **ret_memory);
    void (*release)(void *context, void *memory); /* NULL allowed */
    void (*copy)(void *context, void *to, const void *from, size_t size_bytes);
};

struct reduce_group {
    struct carrier *carrier; /* borrowed; NULL in a group of one */
    unsigned lanes;          /* of the job */
    unsigned member_count;   /* replicas of this stage */
    unsigned self;           /* my index in the arrays below */
    const unsigned *ranks;   /* member -> rank in the generation */
    const uint16_t *owners;  /* lane -> the member that adds it; a member may have none */
    reduce_add_function add;
    const struct reduce_memory *memory; /* borrowed; NULL: host memory */
    void *context;                      /* of add and memory */
};

/** reduce_scratch_bytes() - return the bytes of group->memory that a bucket of @group for @count
 * elements takes; SIZE_MAX: overflow */
size_t reduce_scratch_bytes(const struct reduce_group *group, size_t count);

struct reduce_bucket; /* scratch and requests of one array, reused every step */

/**
 * reduce_bucket_new() - make a bucket for arrays of at most @count elements; allocates all of its
 * memory
 *
 * The group is copied, its arrays too. Return: 0, -ENOMEM, -EINVAL (a lane is of no member, a
 * member has no lane, or more than LANE_TREE_SUBTREES_MAX subtrees).
 */
int reduce_bucket_new(const struct reduce_group *group, size_t count,
                      struct reduce_bucket **ret_bucket) CHECK_RESULT;

/**
 * reduce_bucket_free() - free the bucket, before the carrier; NULL allowed
 *
 * A reduction that has begun and is not finished is aborted, which fails the carrier.
 */
void reduce_bucket_free(struct reduce_bucket *bucket);

/**
 * reduce_expect() - post the receives of the others' sums before my own sums exist
 * @tag, @count: the values that the next reduce_begin() must use
 *
 * Sums that arrive earlier than their receive is posted take host memory beside the scratch. So a
 * worker calls this at the start of a step. Does nothing with a carrier that matches by order.
 */
int reduce_expect(struct reduce_bucket *bucket, uint64_t tag, size_t count) CHECK_RESULT;

/**
 * reduce_begin() - post my subtree sums of one array
 * @tag: unique to (step, bucket), the same on every member; the low 8 bits must be 0 (used inside)
 * @subtrees: one buffer per maximal subtree of my lanes, left to right, or one buffer if I have no
 * lane; borrowed until reduce_finish(), overwritten from reduce_combine() on (the sum is gathered
 * in subtrees[0])
 *
 * A failure of any function here leaves no request posted and the carrier failed: -ECONNRESET,
 * -ETIMEDOUT, -ENOMEM. Only -EINVAL of reduce_begin() (too many elements, a tag with low bits)
 * changes nothing.
 */
int reduce_begin(struct reduce_bucket *bucket, uint64_t tag, float *const *subtrees,
                 size_t count) CHECK_RESULT;

/**
 * reduce_combine() - wait for the others' sums of my shard, finish the tree, post the result to all
 *
 * Call it for every bucket in the order of reduce_begin(), then reduce_finish() for every bucket.
 */
int reduce_combine(struct reduce_bucket *bucket) CHECK_RESULT;

/** reduce_combined() - return whether the sums that the last reduce_begin() was given have been
 * overwritten; until then every one of them is still the sum of its subtree, also after a failure
 */
bool reduce_combined(const struct reduce_bucket *bucket);

/**
 * reduce_finish() - complete the reduction; @result (count elements; subtrees[0] saves a copy)
 * holds the sum over all lanes
 * Return: 0, -ECONNRESET, -ETIMEDOUT: the carrier has failed
 */
int reduce_finish(struct reduce_bucket *bucket, float *result) CHECK_RESULT;
