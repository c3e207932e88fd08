#include "protocol/checkpoint_vote.h"

#include <assert.h>
#include <errno.h>

#include "base/words.h"

void checkpoint_vote_begin(struct checkpoint_vote *vote, const struct plan_layout *layout,
                           unsigned rank, uint64_t step)
{
    *vote = (struct checkpoint_vote){.action = CHECKPOINT_VOTE_LISTEN, .step = step, .rank = rank};
    vote->child_count = commit_tree_children(layout, rank, &vote->first_child);
}

void checkpoint_vote_close(struct checkpoint_vote *vote)
{
    vote->action = CHECKPOINT_VOTE_CLOSED;
}

static bool is_complete(const struct checkpoint_vote *vote)
{
    for (unsigned child = 0; child < vote->child_count; child++)
        if (!vote->has_child[child])
            return false;
    return vote->is_cast && !vote->differs;
}

static void agree(struct checkpoint_vote *vote)
{
    vote->action = vote->child_count ? CHECKPOINT_VOTE_SEND_DOWN : CHECKPOINT_VOTE_AGREED;
}

static void count(struct checkpoint_vote *vote)
{
    if (vote->action != CHECKPOINT_VOTE_LISTEN || vote->is_sent || !is_complete(vote))
        return;
    if (vote->rank)
        vote->action = CHECKPOINT_VOTE_SEND_UP;
    else
        agree(vote);
}

static void add_digests(struct checkpoint_vote *vote, const struct unit_digests *digests)
{
    if (unit_digests_merge(&vote->digests, digests))
        vote->differs = true;
}

void checkpoint_vote_cast(struct checkpoint_vote *vote, const struct unit_digests *digests)
{
    if (vote->action != CHECKPOINT_VOTE_LISTEN || vote->is_cast)
        return;
    if (digests)
        add_digests(vote, digests);
    vote->is_cast = true;
    count(vote);
}

int checkpoint_vote_take(struct checkpoint_vote *vote, unsigned child, const void *data,
                         size_t size_bytes)
{
    struct words_reader words = {.at = data, .count = size_bytes / 8};
    struct unit_digests digests;

    assert(child < COMMIT_TREE_FAN);
    uint64_t step = words_take(&words);
    unit_digests_take(&words, &digests);
    if (size_bytes % 8 || words.status || words.count)
        return -EBADMSG;
    if (step != vote->step || vote->action != CHECKPOINT_VOTE_LISTEN)
        return 0;
    vote->has_child[child] = true;
    add_digests(vote, &digests);
    count(vote);
    return 0;
}

int checkpoint_vote_hear(struct checkpoint_vote *vote, const void *data, size_t size_bytes)
{
    struct words_reader words = {.at = data, .count = size_bytes / 8};
    uint64_t step = words_take(&words);

    if (size_bytes != 8)
        return -EBADMSG;
    if (step != vote->step || vote->action != CHECKPOINT_VOTE_LISTEN)
        return 0;
    if (!vote->is_sent) /* rank 0 cannot have counted it */
        return -EBADMSG;
    agree(vote);
    return 0;
}

int checkpoint_vote_pack(struct checkpoint_vote *vote, struct bytes *message)
{
    struct words_writer writer = {.bytes = message};
    bool up = vote->action == CHECKPOINT_VOTE_SEND_UP;

    assert(up || vote->action == CHECKPOINT_VOTE_SEND_DOWN);
    words_put(&writer, vote->step);
    if (up)
        unit_digests_put(&writer, &vote->digests);
    vote->is_sent = true;
    vote->action = up ? CHECKPOINT_VOTE_LISTEN : CHECKPOINT_VOTE_AGREED;
    return writer.status;
}

/* ---- over links ---- */

static int take_messages(struct checkpoint_vote *vote, const struct checkpoint_vote_links *links,
                         unsigned peer, bool is_answer)
{
    int status = 0;

    while (!status) {
        CLEANUP(bytes_done) struct bytes message = {0};
        status = links->take(links->context, peer, is_answer, &message);
        if (!status)
            status = is_answer ? checkpoint_vote_hear(vote, message.data, message.size_bytes)
                               : checkpoint_vote_take(vote, peer - vote->first_child, message.data,
                                                      message.size_bytes);
    }
    return status == -EAGAIN ? 0 : status;
}

static int send_message(struct checkpoint_vote *vote, const struct checkpoint_vote_links *links)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    bool is_answer = vote->action == CHECKPOINT_VOTE_SEND_DOWN;
    unsigned first = is_answer ? vote->first_child : commit_tree_parent(vote->rank);
    unsigned count = is_answer ? vote->child_count : 1;
    int status = checkpoint_vote_pack(vote, &message);

    for (unsigned i = 0; !status && i < count; i++)
        status = links->send(links->context, first + i, is_answer, &message);
    return status;
}

static bool has_to_send(const struct checkpoint_vote *vote)
{
    return vote->action == CHECKPOINT_VOTE_SEND_UP || vote->action == CHECKPOINT_VOTE_SEND_DOWN;
}

int checkpoint_vote_run(struct checkpoint_vote *vote, const struct checkpoint_vote_links *links)
{
    int status = 0;

    for (unsigned child = 0; !status && child < vote->child_count; child++)
        status = take_messages(vote, links, vote->first_child + child, false);
    if (!status && vote->is_sent)
        status = take_messages(vote, links, commit_tree_parent(vote->rank), true);
    while (!status && has_to_send(vote))
        status = send_message(vote, links);
    return status;
}
