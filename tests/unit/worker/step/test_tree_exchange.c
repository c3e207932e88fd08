/*
 * Tests of a round of large messages over real links, one thread for each rank: with a thousand
 * ranks the claims of a dispute are larger than a link copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/plan/plan.h"
#include "lib/comm/mesh_harness.h"
#include "lib/elastic/ranked_plan.h"
#include "worker/step/tree_exchange.h"

#define RANKS      11 /* two levels below the root */
#define PART_BYTES (3 * MESH_COPY_MAX_BYTES)
#define STEP       41

struct rank {
    struct world *world;
    const struct plan *plan;
    unsigned rank, parts; /* below this rank, and its own */
    uint8_t answer[2 * MESH_COPY_MAX_BYTES];
    int status;
    pthread_t thread;
};

static int take_part(void *content, unsigned child, const void *data, size_t size_bytes)
{
    struct rank *rank = content;
    const uint8_t *bytes = data;

    (void)child;
    if (size_bytes != PART_BYTES || bytes[size_bytes - 1] != bytes[0])
        return -EBADMSG;
    rank->parts += bytes[0];
    return 0;
}

static int pack(struct bytes *message, size_t size_bytes, uint8_t value)
{
    AUTO_FREE uint8_t *part = malloc(size_bytes);

    if (!part)
        return -ENOMEM;
    memset(part, value, size_bytes);
    return bytes_append(message, part, size_bytes);
}

static int pack_part(const void *content, struct bytes *message)
{
    const struct rank *rank = content;
    return pack(message, PART_BYTES, (uint8_t)rank->parts);
}

static int decide(void *content)
{
    struct rank *rank = content;

    memset(rank->answer, (int)rank->parts, sizeof(rank->answer));
    return 0;
}

static int take_answer(void *content, const void *data, size_t size_bytes)
{
    struct rank *rank = content;

    if (size_bytes != sizeof(rank->answer))
        return -EBADMSG;
    memcpy(rank->answer, data, size_bytes);
    return 0;
}

static int pack_answer(const void *content, struct bytes *message)
{
    const struct rank *rank = content;
    return bytes_append(message, rank->answer, sizeof(rank->answer));
}

static void *run_rank(void *context)
{
    static const struct tree_question question = {.take_part = take_part,
                                                  .pack_part = pack_part,
                                                  .decide = decide,
                                                  .take_answer = take_answer,
                                                  .pack_answer = pack_answer};
    struct rank *rank = context;
    struct tree_exchange exchange = {.mesh = rank->world->meshes[rank->rank],
                                     .part_tag = tag_make(TAG_DISPUTE, STEP, 0),
                                     .answer_tag = tag_make(TAG_DISPUTE, STEP, 1)};

    tree_round_begin(&exchange.round, &question, rank, &rank->plan->layout, rank->rank);
    rank->status = tree_exchange_run(&exchange);
    return NULL;
}

static void test_all_have_the_answer(void **state)
{
    struct rank *ranks = calloc(RANKS, sizeof(*ranks));
    struct plan *plan = ranked_plan(RANKS);
    struct world world;

    (void)state;
    assert_non_null(ranks);
    world_init(&world, RANKS);
    world_open(&world);
    for (unsigned i = 0; i < RANKS; i++) {
        ranks[i].world = &world;
        ranks[i].plan = plan;
        ranks[i].rank = i;
        ranks[i].parts = 1;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    for (unsigned i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, 0);
        assert_int_equal(ranks[i].answer[0], RANKS);
        assert_memory_equal(ranks[i].answer, ranks[0].answer, sizeof(ranks[i].answer));
    }
    world_close(&world);
    world_done(&world);
    plan_free(plan);
    free(ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_have_the_answer)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
