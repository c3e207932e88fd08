#include "elastic/step/dispute_verdict.h"

#include <errno.h>
#include <string.h>

static int compare_claims(const void *a, const void *b)
{
    const struct dispute_verdict_claim *left = a, *right = b;

    if (left->unit != right->unit)
        return left->unit < right->unit ? -1 : 1;
    return (left->bits > right->bits) - (left->bits < right->bits);
}

static size_t run_length(const struct dispute_verdict_claim *claims, size_t count)
{
    size_t length = 1;

    while (length < count && compare_claims(&claims[0], &claims[length]) == 0)
        length++;
    return length;
}

/* Return the size of the largest run of equal claims on one unit, and its first index. The claims
 * are sorted by their bits. */
static size_t most_alike(const struct dispute_verdict_claim *claims, size_t count,
                         size_t *ret_first)
{
    size_t most = 0;

    for (size_t at = 0, length; at < count; at += length) {
        length = run_length(claims + at, count - at);
        if (length <= most)
            continue;
        most = length;
        *ret_first = at;
    }
    return most;
}

/* Mark the ranks that are wrong in one unit or, without a majority, all of its holders as
 * doubtful. */
static void judge_unit(const struct dispute_verdict_claim *claims, size_t count, bool *wrong,
                       bool *doubtful, struct dispute_verdict *verdict)
{
    size_t first = 0, most = most_alike(claims, count, &first);
    bool settled = 2 * most > count;

    if (most == count)
        return;
    if (verdict->holders == 0) {
        verdict->unit = claims[0].unit;
        verdict->holders = (unsigned)count;
    }
    for (size_t i = 0; i < count; i++)
        if (!settled)
            doubtful[claims[i].rank] = true;
        else if (i < first || i >= first + most)
            wrong[claims[i].rank] = true;
}

int dispute_verdict_judge(const struct dispute_verdict_claim *claims, size_t count,
                          unsigned rank_count, struct dispute_verdict *ret_verdict)
{
    bool wrong[JOB_DEVICES_MAX] = {false}, doubtful[JOB_DEVICES_MAX] = {false};
    AUTO_FREE struct dispute_verdict_claim *sorted = calloc(count + 1, sizeof(*sorted));

    if (!sorted)
        return -ENOMEM;
    memset(ret_verdict, 0, sizeof(*ret_verdict));
    if (count > 0) /* @claims may be NULL when empty */
        memcpy(sorted, claims, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_claims);
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at; end < count && sorted[end].unit == sorted[at].unit;)
            end++;
        judge_unit(sorted + at, end - at, wrong, doubtful, ret_verdict);
    }
    for (unsigned rank = 0; rank < rank_count; rank++)
        ret_verdict->settled = ret_verdict->settled || wrong[rank];
    for (unsigned rank = 0; rank < rank_count; rank++)
        if (ret_verdict->settled ? wrong[rank] : doubtful[rank])
            ret_verdict->accused[ret_verdict->accused_count++] = rank;
    return 0;
}
