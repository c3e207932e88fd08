#include "membership/etcd/answer_timeout.h"

#include "base/compiler.h"

#define START_TIMES  4  /* multiple of the minimum */
#define MAX_TIMES    32 /* multiple of the minimum */
#define ANSWER_TIMES 4  /* multiple of the last answer's time */
#define SHRINK_PART  4  /* part of the limit that each answer takes off */

void answer_timeout_init(struct answer_timeout *patience, uint64_t min_ns)
{
    *patience = (struct answer_timeout){
        .min_ns = min_ns, .max_ns = MAX_TIMES * min_ns, .limit_ns = START_TIMES * min_ns};
}

void answer_timeout_answered(struct answer_timeout *patience, uint64_t took_ns)
{
    uint64_t shrunk_ns = patience->limit_ns - patience->limit_ns / SHRINK_PART;
    uint64_t wanted_ns = ANSWER_TIMES * MIN(took_ns, patience->max_ns);
    patience->limit_ns = MIN(MAX(MAX(shrunk_ns, wanted_ns), patience->min_ns), patience->max_ns);
}

/* Double the limit that was in force when waiting began: of many requests sent together, only the
 * first to fail makes a difference. */
void answer_timeout_lost(struct answer_timeout *patience, uint64_t waited_ns)
{
    uint64_t doubled_ns = MIN(2 * MIN(waited_ns, patience->max_ns), patience->max_ns);
    patience->limit_ns = MAX(patience->limit_ns, doubled_ns);
}
