/* Plans: an accepted plan passes its own check and comes back the same when written again. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "elastic/plan/plan.h"
#include "elastic/plan/plan_workers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct plan *plan)
{
    struct plan *again = NULL;
    json_t *tree = plan_encode(plan);
    if (!tree)
        return;
    if (plan_check(plan, NULL) != 0 || plan_decode(tree, &again, NULL) != 0)
        abort();
    json_t *second = plan_encode(again);
    if (second && !json_equal(tree, second))
        abort();
    json_decref(tree);
    json_decref(second);
    plan_free(again);
}

/* Decode the packed workers alone, so that a text that is no JSON reaches them too. */
static void check_workers(const char *text, size_t size)
{
    struct plan_worker *workers = NULL, *again = NULL;
    unsigned count = 0, count_again = 0;
    struct bytes packed = {0};
    if (plan_workers_unpack(text, size, &workers, &count, NULL) != 0)
        return;
    if (plan_workers_pack(workers, count, &packed) == 0 &&
        (plan_workers_unpack((const char *)packed.data, packed.size_bytes, &again, &count_again,
                             NULL) != 0 ||
         count != count_again || memcmp(workers, again, count * sizeof(*workers)) != 0))
        abort();
    bytes_done(&packed);
    free(workers);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan *plan = NULL;
    struct error error;
    json_t *tree;
    check_workers((const char *)data, size);
    if (json_parse((const char *)data, size, "fuzz", &tree, &error) != 0)
        return 0;
    if (plan_decode(tree, &plan, &error) == 0) {
        check(plan);
        plan_free(plan);
    }
    json_decref(tree);
    return 0;
}
