#include "lib/comm/reduce_harness.h"

#include <string.h>

#include "base/philox.h"

static const size_t counts[] = {0, 1, 15, 16, 17, 100, 191, 192, 193, COUNT_MAX};

void reduce_add(void *context, float *output, const float *a, const float *b, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        output[i] = a[i] + b[i];
}

static uint32_t draw(uint64_t number, uint64_t stream)
{
    uint32_t words[4];
    philox_block(philox_key_make(5, stream), number, 0, words);
    return words[0];
}

void reduce_make_lane(float *values, uint64_t job, unsigned bucket, unsigned lane, size_t count)
{
    struct philox_key key = philox_key_make(job, 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        philox_block(key, i, bucket * 1000 + lane, words);
        float magnitude = (float)(1u << (words[1] % 24));
        values[i] = ((float)(words[0] >> 8) / 8388608.0f - 1.0f) * magnitude;
    }
}

void reduce_sum_subtree(float *result, uint64_t job, unsigned bucket, struct lane_tree_span node,
                        size_t count)
{
    if (node.count == 1) {
        reduce_make_lane(result, job, bucket, node.first, count);
        return;
    }
    float right_values[COUNT_MAX];
    struct lane_tree_span left, right;
    lane_tree_children(node, &left, &right);
    reduce_sum_subtree(result, job, bucket, left, count);
    reduce_sum_subtree(right_values, job, bucket, right, count);
    reduce_add(NULL, result, result, right_values, count);
}

/* Deal uneven ranges in order, each of at least one lane. */
static void deal_ranges(struct job *job)
{
    unsigned first = 0;
    for (unsigned i = 0; i < job->members; i++) {
        unsigned left = job->members - i;
        unsigned spare = job->lanes - first - left; /* beyond one lane for each of the rest */
        unsigned count = 1 + (left == 1 ? spare : draw(job->number, 10 + i) % (spare + 1));
        lane_tree_own(job->owners, (struct lane_tree_span){first, count}, i);
        first += count;
    }
}

/* Deal as after changes within a step: any lane to any member, and none to some members. */
static void deal_any(struct job *job)
{
    unsigned having = 1 + draw(job->number, 39) % job->members;
    for (unsigned lane = 0; lane < job->lanes; lane++)
        job->owners[lane] = (uint16_t)(draw(job->number, 40 + lane) % having);
}

void reduce_make_job(struct job *job, uint64_t number, unsigned lanes, unsigned members,
                     unsigned ranks)
{
    *job = (struct job){.lanes = lanes, .members = members, .number = number};
    for (unsigned i = 0; i < members; i++)
        job->ranks[i] = (i * 5 + draw(number, 9)) % ranks; /* 5 has no common divisor with it */
    if (draw(number, 38) % 2)
        deal_ranges(job);
    else
        deal_any(job);
}

static void own_sums_make(struct own_sums *sums, const struct job *job, unsigned self,
                          unsigned bucket, size_t count)
{
    struct lane_tree_span subtrees[LANE_TREE_SUBTREES_MAX];
    sums->count =
        lane_tree_subtrees(job->lanes, job->owners, self, subtrees, LANE_TREE_SUBTREES_MAX);
    sums->pointers[0] = sums->values[0];
    for (unsigned k = 0; k < sums->count; k++) {
        reduce_sum_subtree(sums->values[k], job->number, bucket, subtrees[k], count);
        sums->pointers[k] = sums->values[k];
    }
}

static unsigned check_result(const float *result, const struct job *job, unsigned bucket,
                             size_t count)
{
    float expected[COUNT_MAX];
    struct lane_tree_span root = {.first = 0, .count = job->lanes};
    reduce_sum_subtree(expected, job->number, bucket, root, count);
    return memcmp(result, expected, count * sizeof(float)) != 0;
}

/* Begin, combine and finish all buckets of one step, each in order. */
static int run_step(struct member *member, const struct job *job, struct reduce_bucket **buckets,
                    unsigned self, uint64_t step, size_t count)
{
    float elsewhere[COUNT_MAX];
    uint64_t base = (job->number << 32) | (step << 16);
    int status = 0;
    for (unsigned b = 0; b < BUCKETS && status == 0; b++)
        if (draw(job->number + self, 100 + step * BUCKETS + b) %
            2) /* whether it does is a member's own affair */
            status = reduce_expect(buckets[b], base | (b << 8), count);
    for (unsigned b = 0; b < BUCKETS && status == 0; b++) {
        own_sums_make(&member->sums[b], job, self, b, count);
        status = reduce_begin(buckets[b], base | (b << 8), member->sums[b].pointers, count);
    }
    for (unsigned b = 0; b < BUCKETS && status == 0; b++)
        status = reduce_combine(buckets[b]);
    for (unsigned b = 0; b < BUCKETS && status == 0; b++) {
        float *result = b == 1 ? elsewhere : member->sums[b].pointers[0];
        status = reduce_finish(buckets[b], result);
        if (status == 0)
            member->wrong += check_result(result, job, b, count);
    }
    return status;
}

int reduce_run_job(struct member *member, const struct job *job)
{
    unsigned self = 0;
    while (self < job->members && job->ranks[self] != member->rank)
        self++;
    if (self == job->members)
        return 0;
    struct reduce_group group = {
        .carrier = member->carrier,
        .lanes = job->lanes,
        .member_count = job->members,
        .self = self,
        .ranks = job->ranks,
        .owners = job->owners,
        .add = reduce_add,
    };
    struct reduce_bucket *buckets[BUCKETS] = {NULL};
    int status = 0;
    for (unsigned b = 0; b < BUCKETS && status == 0; b++)
        status = reduce_bucket_new(&group, COUNT_MAX, &buckets[b]);
    for (uint64_t step = 0; step < 2 && status == 0; step++) /* buckets are used again */
        status = run_step(member, job, buckets, self, step,
                          counts[(job->number + step * 3) % ARRAY_COUNT(counts)]);
    for (unsigned b = 0; b < BUCKETS; b++)
        reduce_bucket_free(buckets[b]);
    return status;
}
