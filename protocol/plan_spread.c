#include "protocol/plan_spread.h"

#include <assert.h>
#include <errno.h>

#include "base/words.h"

int plan_spread_pack(uint64_t generation, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};

    words_put(&writer, generation);
    return writer.status;
}

int plan_spread_take(struct plan_spread *spread, unsigned child, const void *data,
                     size_t size_bytes)
{
    struct words_reader words = {.at = data, .count = 1};

    assert(child < COMMIT_TREE_FAN);
    if (size_bytes != 8)
        return -EBADMSG;
    spread->children[child] = words_take(&words);
    return words.status;
}

bool plan_spread_is_complete(const struct plan_spread *spread, unsigned child_count,
                             uint64_t generation)
{
    for (unsigned child = 0; child < child_count; child++)
        if (spread->children[child] != generation)
            return false;
    return true;
}
