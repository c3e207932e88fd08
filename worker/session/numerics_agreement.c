#include "worker/session/numerics_agreement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "protocol/algorithm_vote.h"
#include "worker/step/tree_exchange.h"

#define CHOICE_SIZE 512 /* of a choice without its reasons; a longer one is cut off */

/* One line "SHAPE: CHOICE". */
struct line {
    const char *shape, *choice; /* into the description */
    int shape_length, choice_length;
    uint64_t shape_digest, choice_digest;
};

/* Digest @text without its parentheses: they have reasons, which name files of this machine. */
static uint64_t digest_choice(const char *text, int length)
{
    char kept[CHOICE_SIZE];
    size_t used = 0;
    int depth = 0;

    for (int i = 0; i < length && used < sizeof(kept); i++) {
        depth += text[i] == '(';
        if (depth == 0)
            kept[used++] = text[i];
        depth -= text[i] == ')' && depth > 0;
    }
    return hash_xxh3(kept, used).low;
}

/* Take the next line that names a shape; false: there is none. */
static bool next_line(const char **at, struct line *ret_line)
{
    while (**at) {
        const char *begin = *at, *end = strchrnul(begin, '\n');
        const char *colon = memmem(begin, (size_t)(end - begin), ": ", 2);
        *at = *end ? end + 1 : end;
        if (!colon || !strncmp(begin, "GPU ", 4))
            continue;
        *ret_line = (struct line){.shape = begin,
                                  .choice = colon + 2,
                                  .shape_length = (int)(colon - begin),
                                  .choice_length = (int)(end - colon - 2)};
        ret_line->shape_digest = hash_xxh3(begin, (size_t)ret_line->shape_length).low;
        ret_line->choice_digest = digest_choice(ret_line->choice, ret_line->choice_length);
        return true;
    }
    return false;
}

/* Return 0, or -ENOTRECOVERABLE for the first line that has lost. */
static int judge(const struct algorithm_vote *vote, const char *node, const char *description,
                 struct error *error)
{
    struct line line;

    for (const char *at = description; next_line(&at, &line);)
        if (algorithm_vote_lost(vote, line.shape_digest, line.choice_digest))
            return error_set(
                error, -ENOTRECOVERABLE,
                "a worker on node %s computes %.*s with %.*s, other workers of the job "
                "do not, so its bits may differ: compare \"computes with\" in the logs "
                "of the workers, and the CUDA libraries of the nodes",
                node, line.shape_length, line.shape, line.choice_length, line.choice);
    return 0;
}

int numerics_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                           const char *description, bool trained, struct error *error)
{
    struct tree_exchange exchange = {.mesh = mesh,
                                     .part_tag = tag_make(TAG_NUMERICS, 0, 0),
                                     .answer_tag = tag_make(TAG_NUMERICS, 0, 1)};
    AUTO_FREE struct algorithm_vote *vote = malloc(sizeof(*vote));
    struct line line;

    if (!vote)
        return error_set(error, -ENOMEM, "no memory to compare algorithms");
    algorithm_vote_begin(vote, &exchange.round, layout, rank);
    for (const char *at = description; next_line(&at, &line);)
        algorithm_vote_add(vote, line.shape_digest, line.choice_digest, trained);
    int status = tree_exchange_run(&exchange);
    if (status)
        return status;
    if (vote->winners.count)
        tree_exchange_await_all(mesh, layout, rank, TAG_NUMERICS, 0);
    return judge(vote, layout->workers[rank].node, description, error);
}
