/*
 * Reduce-scatter along the lane tree and all-gather, per array.
 *
 *     expect: the others' sums of my shard are received into scratch (begin does it, if the
 *              carrier matches by order)
 *     begin:   my sums of every other member's shard go to it
 *     combine: when all sums of my shard are here, the receives of the others' shards are posted,
 *              into my first subtree; spans of lanes, left to right, are merged as soon as two of
 *              them are the children of one node, like a shift-reduce parser; the root sum goes to
 *              all
 *     finish:  wait until all of that is complete
 *
 * My sums are overwritten only after every member has sent its own; until then a failure loses no
 * sum. Receiving into subtrees[0] while its slices may still be in flight is safe: the owner of a
 * shard sends the sum only after it has received my whole slice.
 *
 * Shards are cut at multiples of SHARD_ALIGNMENT elements, so every kernel sees the alignment that
 * it would see in the whole array; with few elements the last shards are empty and not sent. Moves
 * that are posted together are posted in one call, so that both members of a pair post the moves
 * between them in the same order: receives by source, which is by member and subtree, sends to one
 * member by subtree. A failure leaves the carrier failed and no request behind.
 */
#include "comm/reduce/reduce.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define SHARD_ALIGNMENT 16
#define RESULT_TAG      0x80 /* sums have their subtree's index in the low byte, results this */

_Static_assert(LANE_TREE_SUBTREES_MAX < RESULT_TAG, "tags of sums and results differ");

struct shard {
    size_t begin, count;
};

/* One maximal subtree of one member: where its sums of my shard are. */
struct source {
    struct lane_tree_span span;
    unsigned member;
    unsigned index;   /* among the member's subtrees */
    float *scratch;   /* NULL: the sums are mine */
    unsigned request; /* index of its receive, if there is one */
};

struct reduce_bucket {
    struct reduce_group group;
    unsigned *ranks;        /* owned copy */
    struct source *sources; /* of all members, by lane */
    unsigned source_count;
    unsigned own_count; /* my subtrees */
    size_t count_max, count;
    uint64_t tag;
    float **subtrees; /* own_count pointers of this round */
    float *scratch;
    struct carrier_move *moves;        /* of one post */
    struct carrier_request **requests; /* all of this round, in the order of posting */
    unsigned move_count, request_count, requests_max;
    bool expected; /* the receives of sums are posted, begin is not yet called */
    bool combined; /* the sums of this round have been overwritten */
};

/* ---- memory of the host ---- */

static int host_allocate(void *context, size_t size_bytes, void **ret_memory)
{
    (void)context;
    *ret_memory = aligned_alloc(SHARD_ALIGNMENT * sizeof(float), size_bytes);
    return *ret_memory ? 0 : -ENOMEM;
}

static void host_release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static void host_copy(void *context, void *to, const void *from, size_t size_bytes)
{
    (void)context;
    memmove(to, from, size_bytes);
}

static const struct reduce_memory host_memory = {
    .allocate = host_allocate, .release = host_release, .copy = host_copy};

/* ---- shape ---- */

static struct shard shard_of(const struct reduce_group *group, size_t count, unsigned member)
{
    size_t blocks = (count + SHARD_ALIGNMENT - 1) / SHARD_ALIGNMENT;
    size_t members = group->member_count;
    /* floor(blocks * member / members) without a product that could overflow */
    size_t first = blocks / members * member + blocks % members * member / members;
    size_t last = blocks / members * (member + 1) + blocks % members * (member + 1) / members;
    size_t begin = MIN(first * SHARD_ALIGNMENT, count);
    size_t end = MIN(last * SHARD_ALIGNMENT, count);
    return (struct shard){.begin = begin, .count = end - begin};
}

static size_t shard_count_max(const struct reduce_group *group, size_t count)
{
    size_t blocks = (count + SHARD_ALIGNMENT - 1) / SHARD_ALIGNMENT;
    return (blocks / group->member_count + 1) * SHARD_ALIGNMENT;
}

/* Return how many subtrees @member has. */
static unsigned count_subtrees(const struct reduce_group *group, unsigned member)
{
    return lane_tree_subtrees(group->lanes, group->owners, member, NULL, 0);
}

static bool group_valid(const struct reduce_group *group)
{
    if (group->lanes == 0 || group->lanes > LANE_TREE_LANES_MAX ||
        group->self >= group->member_count || group->member_count > group->lanes)
        return false;
    for (unsigned lane = 0; lane < group->lanes; lane++)
        if (group->owners[lane] >= group->member_count)
            return false;
    for (unsigned i = 0; i < group->member_count; i++) {
        unsigned count = count_subtrees(group, i);
        if (count > LANE_TREE_SUBTREES_MAX)
            return false;
    }
    return true;
}

/* Fill sources and counts; there are at most as many sources as lanes. */
static int list_sources(struct reduce_bucket *bucket)
{
    const struct reduce_group *group = &bucket->group;
    AUTO_FREE struct lane_tree_part *parts = calloc(group->lanes, sizeof(*parts));
    AUTO_FREE unsigned *counts = calloc(group->member_count, sizeof(*counts));
    if (!parts || !counts)
        return -ENOMEM;
    bucket->source_count = lane_tree_parts(group->lanes, group->owners, parts);
    for (unsigned i = 0; i < bucket->source_count; i++)
        bucket->sources[i] = (struct source){
            .span = parts[i].span, .member = parts[i].owner, .index = counts[parts[i].owner]++};
    bucket->own_count = counts[group->self];
    return 0;
}

size_t reduce_scratch_bytes(const struct reduce_group *group, size_t count)
{
    size_t foreign = 0, size_bytes;
    for (unsigned i = 0; i < group->member_count; i++)
        if (i != group->self)
            foreign += count_subtrees(group, i);
    return checked_multiply(shard_count_max(group, count), foreign, &size_bytes) ||
                   checked_multiply(size_bytes, sizeof(float), &size_bytes)
               ? SIZE_MAX
               : size_bytes;
}

static int take_scratch(struct reduce_bucket *bucket)
{
    size_t shard_max = shard_count_max(&bucket->group, bucket->count_max);
    size_t size_bytes = reduce_scratch_bytes(&bucket->group, bucket->count_max);
    if (size_bytes == 0 || size_bytes == SIZE_MAX)
        return size_bytes == 0 ? 0 : -ENOMEM;
    void *memory;
    if (bucket->group.memory->allocate(bucket->group.context, size_bytes, &memory) < 0)
        return -ENOMEM;
    bucket->scratch = memory;
    float *next = memory;
    for (unsigned i = 0; i < bucket->source_count; i++) {
        if (bucket->sources[i].member == bucket->group.self)
            continue;
        bucket->sources[i].scratch = next;
        next += shard_max;
    }
    return 0;
}

static int take_lists(struct reduce_bucket *bucket)
{
    const struct reduce_group *group = &bucket->group;
    bucket->ranks = calloc(group->member_count, sizeof(*bucket->ranks));
    bucket->sources = calloc(group->lanes, sizeof(*bucket->sources));
    bucket->subtrees = calloc(LANE_TREE_SUBTREES_MAX, sizeof(*bucket->subtrees));
    if (!bucket->ranks || !bucket->sources || !bucket->subtrees)
        return -ENOMEM;
    memcpy(bucket->ranks, group->ranks, group->member_count * sizeof(*bucket->ranks));
    int status = list_sources(bucket);
    if (status < 0)
        return status;
    bucket->requests_max = bucket->source_count - bucket->own_count +
                           (group->member_count - 1) * (bucket->own_count + 2);
    bucket->requests = calloc(bucket->requests_max + 1, sizeof(*bucket->requests));
    bucket->moves = calloc(bucket->requests_max + 1, sizeof(*bucket->moves));
    return bucket->requests && bucket->moves ? take_scratch(bucket) : -ENOMEM;
}

int reduce_bucket_new(const struct reduce_group *group, size_t count,
                      struct reduce_bucket **ret_bucket)
{
    if (!group_valid(group) || count > CARRIER_MOVE_MAX / sizeof(float))
        return -EINVAL;
    struct reduce_bucket *bucket = calloc(1, sizeof(*bucket));
    if (!bucket)
        return -ENOMEM;
    bucket->group = *group;
    if (!group->memory)
        bucket->group.memory = &host_memory;
    bucket->count_max = count;
    int status = take_lists(bucket);
    if (status < 0) {
        reduce_bucket_free(bucket);
        return status;
    }
    bucket->group.ranks = bucket->ranks;
    bucket->group.owners = NULL; /* owned by the caller; `sources` has the same data */
    *ret_bucket = bucket;
    return 0;
}

/* ---- requests ---- */

static bool requests_left(const struct reduce_bucket *bucket)
{
    for (unsigned i = 0; i < bucket->request_count; i++)
        if (bucket->requests[i])
            return true;
    return false;
}

static int wait_request(struct reduce_bucket *bucket, unsigned index)
{
    return carrier_complete(bucket->group.carrier, &bucket->requests[index]);
}

/* Complete every request and fail the carrier: the buffers belong to the caller again after a
 * failure, and no other member may wait for sums that will not come. */
static int give_up(struct reduce_bucket *bucket, int code)
{
    if (code == 0 && !requests_left(bucket))
        return 0;
    carrier_abort(bucket->group.carrier, "a reduction was given up");
    for (unsigned i = 0; i < bucket->request_count; i++)
        if (wait_request(bucket, i) < 0)
            continue;
    bucket->request_count = 0;
    bucket->expected = false;
    return code;
}

static int wait_requests(struct reduce_bucket *bucket)
{
    int status = 0;
    for (unsigned i = 0; i < bucket->request_count && status == 0; i++)
        status = wait_request(bucket, i);
    if (status < 0)
        return give_up(bucket, status);
    bucket->request_count = 0;
    return 0;
}

void reduce_bucket_free(struct reduce_bucket *bucket)
{
    if (!bucket)
        return;
    give_up(bucket, 0);
    if (bucket->scratch)
        bucket->group.memory->release(bucket->group.context, bucket->scratch);
    free(bucket->ranks);
    free(bucket->sources);
    free(bucket->subtrees);
    free(bucket->moves);
    free(bucket->requests);
    free(bucket);
}

/* Return: the index that its request will have. */
static unsigned add_move(struct reduce_bucket *bucket, struct carrier_move move)
{
    unsigned index = bucket->request_count + bucket->move_count;
    assert(index < bucket->requests_max);
    bucket->moves[bucket->move_count++] = move;
    return index;
}

static int post_moves(struct reduce_bucket *bucket)
{
    unsigned count = bucket->move_count;
    bucket->move_count = 0;
    if (count == 0)
        return 0;
    int status = carrier_post(bucket->group.carrier, bucket->moves, count,
                              &bucket->requests[bucket->request_count]);
    bucket->request_count += count;
    return status;
}

/* ---- begin ---- */

static void receive_sums(struct reduce_bucket *bucket)
{
    struct shard mine = shard_of(&bucket->group, bucket->count, bucket->group.self);
    for (unsigned i = 0; i < bucket->source_count && mine.count > 0; i++) {
        struct source *source = &bucket->sources[i];
        if (source->scratch)
            source->request =
                add_move(bucket, (struct carrier_move){.peer = bucket->ranks[source->member],
                                                       .receive = true,
                                                       .tag = bucket->tag | source->index,
                                                       .data = source->scratch,
                                                       .size_bytes = mine.count * sizeof(float)});
    }
}

static void send_sums(struct reduce_bucket *bucket)
{
    const struct reduce_group *group = &bucket->group;
    /* Each member begins with a different receiver, so that no receiver gets the sums of all at
     * once. */
    for (unsigned i = 1; i < group->member_count; i++) {
        unsigned member = (group->self + i) % group->member_count;
        struct shard shard = shard_of(group, bucket->count, member);
        for (unsigned k = 0; k < bucket->own_count && shard.count > 0; k++)
            add_move(bucket, (struct carrier_move){.peer = bucket->ranks[member],
                                                   .tag = bucket->tag | k,
                                                   .data = bucket->subtrees[k] + shard.begin,
                                                   .size_bytes = shard.count * sizeof(float)});
    }
}

static void receive_results(struct reduce_bucket *bucket)
{
    const struct reduce_group *group = &bucket->group;
    for (unsigned i = 0; i < group->member_count; i++) {
        struct shard shard = shard_of(group, bucket->count, i);
        if (i != group->self && shard.count > 0)
            add_move(bucket, (struct carrier_move){.peer = bucket->ranks[i],
                                                   .receive = true,
                                                   .tag = bucket->tag | RESULT_TAG,
                                                   .data = bucket->subtrees[0] + shard.begin,
                                                   .size_bytes = shard.count * sizeof(float)});
    }
}

/* A group of one receives nothing. */
static bool matches_by_tag(const struct reduce_bucket *bucket)
{
    const struct carrier *carrier = bucket->group.carrier;
    return carrier && carrier->operations->by_tag;
}

static int begin_round(struct reduce_bucket *bucket, uint64_t tag, size_t count)
{
    assert(!requests_left(bucket));
    if (count > bucket->count_max || (tag & 0xff) != 0)
        return -EINVAL;
    bucket->tag = tag;
    bucket->count = count;
    bucket->combined = false;
    receive_sums(bucket);
    return 0;
}

int reduce_expect(struct reduce_bucket *bucket, uint64_t tag, size_t count)
{
    bucket->combined = false;
    if (!matches_by_tag(bucket))
        return 0;
    int status = begin_round(bucket, tag, count);
    if (status < 0)
        return status;
    status = post_moves(bucket);
    bucket->expected = status == 0;
    return status < 0 ? give_up(bucket, status) : 0;
}

int reduce_begin(struct reduce_bucket *bucket, uint64_t tag, float *const *subtrees, size_t count)
{
    if (!bucket->expected) {
        int status = begin_round(bucket, tag, count);
        if (status < 0)
            return status;
    } else if (tag != bucket->tag || count != bucket->count) {
        return -EINVAL;
    }
    bucket->expected = false;
    /* A member without lanes has one buffer, for the result. */
    memcpy(bucket->subtrees, subtrees, MAX(1u, bucket->own_count) * sizeof(*subtrees));
    send_sums(bucket);
    int status = post_moves(bucket);
    return status < 0 ? give_up(bucket, status) : 0;
}

/* ---- combine ---- */

struct partial {
    struct lane_tree_span span;
    float *values;
};

/*
 * Merge the two topmost partial sums as long as they are children of one node. The sum replaces the
 * left one. The root goes to @root_values: by then all inputs there were read, or are read element
 * by element.
 */
static unsigned merge_top(const struct reduce_group *group, struct partial *stack, unsigned depth,
                          float *root_values, size_t count)
{
    struct lane_tree_span parent;
    while (depth >= 2 && lane_tree_parent_of_pair(group->lanes, stack[depth - 2].span,
                                                  stack[depth - 1].span, &parent)) {
        struct partial *left = &stack[depth - 2], *right = &stack[depth - 1];
        float *output = parent.count == group->lanes ? root_values : left->values;
        group->add(group->context, output, left->values, right->values, count);
        *left = (struct partial){.span = parent, .values = output};
        depth--;
    }
    return depth;
}

static int await_sums(struct reduce_bucket *bucket)
{
    int status = 0;
    for (unsigned i = 0; i < bucket->source_count && status == 0; i++)
        if (bucket->sources[i].scratch)
            status = wait_request(bucket, bucket->sources[i].request);
    return status;
}

static void finish_tree(struct reduce_bucket *bucket, struct shard mine)
{
    /* Every partial sum on the stack except the topmost is a left child of an open node. */
    struct partial stack[LANE_TREE_SUBTREES_MAX];
    unsigned depth = 0;
    float *root_values = bucket->subtrees[0] + mine.begin;
    for (unsigned i = 0; i < bucket->source_count; i++) {
        struct source *source = &bucket->sources[i];
        float *values =
            source->scratch ? source->scratch : bucket->subtrees[source->index] + mine.begin;
        assert(depth < LANE_TREE_SUBTREES_MAX);
        stack[depth++] = (struct partial){.span = source->span, .values = values};
        depth = merge_top(&bucket->group, stack, depth, root_values, mine.count);
    }
    assert(depth == 1);
    if (stack[0].values != root_values) /* one subtree of another member is the whole tree */
        bucket->group.memory->copy(bucket->group.context, root_values, stack[0].values,
                                   mine.count * sizeof(float));
}

static void send_result(struct reduce_bucket *bucket, struct shard mine)
{
    const struct reduce_group *group = &bucket->group;
    for (unsigned i = 1; i < group->member_count && mine.count > 0; i++)
        add_move(bucket, (struct carrier_move){
                             .peer = bucket->ranks[(group->self + i) % group->member_count],
                             .tag = bucket->tag | RESULT_TAG,
                             .data = bucket->subtrees[0] + mine.begin,
                             .size_bytes = mine.count * sizeof(float)});
}

/* If the carrier matches by tag, post the receives first: the other members may be ahead. */
static int exchange_results(struct reduce_bucket *bucket, struct shard mine)
{
    int status = 0;
    receive_results(bucket);
    if (matches_by_tag(bucket))
        status = post_moves(bucket);
    if (status < 0)
        return status;
    if (mine.count > 0)
        finish_tree(bucket, mine);
    send_result(bucket, mine);
    return post_moves(bucket);
}

int reduce_combine(struct reduce_bucket *bucket)
{
    struct shard mine = shard_of(&bucket->group, bucket->count, bucket->group.self);
    int status = mine.count > 0 ? await_sums(bucket) : 0;
    if (status == 0) {
        bucket->combined = true;
        status = exchange_results(bucket, mine);
    }
    return status < 0 ? give_up(bucket, status) : 0;
}

bool reduce_combined(const struct reduce_bucket *bucket)
{
    return bucket->combined;
}

int reduce_finish(struct reduce_bucket *bucket, float *result)
{
    int status = wait_requests(bucket);
    if (status < 0)
        return status;
    if (result != bucket->subtrees[0] && bucket->count > 0)
        bucket->group.memory->copy(bucket->group.context, result, bucket->subtrees[0],
                                   bucket->count * sizeof(float));
    return 0;
}
