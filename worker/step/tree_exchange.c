#include "worker/step/tree_exchange.h"

#include <errno.h>

#include "base/bytes.h"
#include "elastic/plan/commit_tree.h"

/* Indexes of tree_exchange_await_all(), after those of the question. */
enum { HEARD = TREE_EXCHANGE_INDEX_MAX, ALL_HEARD };

void tree_exchange_init(struct tree_exchange *place, struct mesh *mesh,
                        const struct plan_layout *layout, unsigned rank, enum tag_kind kind,
                        uint64_t step)
{
    *place = (struct tree_exchange){.mesh = mesh, .kind = kind, .step = step, .rank = rank};
    place->child_count = commit_tree_children(layout, rank, &place->first_child);
    place->parent = rank ? commit_tree_parent(rank) : 0;
}

int tree_exchange_send(const struct tree_exchange *place, unsigned peer, unsigned index,
                       const struct bytes *message)
{
    return mesh_send(place->mesh, peer, tag_make(place->kind, place->step, index), message->data,
                     message->size_bytes, NULL);
}

int tree_exchange_receive(const struct tree_exchange *place, unsigned peer, unsigned index,
                          size_t count_max, void **ret_message, struct words_reader *ret_words)
{
    size_t size_bytes = 0;
    int status = mesh_receive_any(place->mesh, peer, tag_make(place->kind, place->step, index),
                                  UINT64_MAX, ret_message, &size_bytes);

    if (!status && (size_bytes % 8 || size_bytes / 8 > count_max))
        status = -EBADMSG;
    *ret_words = (struct words_reader){.at = *ret_message, .count = size_bytes / 8};
    return status;
}

static int send_signal(const struct tree_exchange *place, unsigned peer, unsigned index)
{
    const struct bytes nothing = {0};
    return tree_exchange_send(place, peer, index, &nothing);
}

static int await_signal(const struct tree_exchange *place, unsigned peer, unsigned index)
{
    AUTO_FREE void *message = NULL;
    struct words_reader words;
    return tree_exchange_receive(place, peer, index, 0, &message, &words);
}

void tree_exchange_await_all(const struct tree_exchange *place)
{
    int status = 0;

    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = await_signal(place, place->first_child + i, HEARD);
    if (!status && place->rank) {
        status = send_signal(place, place->parent, HEARD);
        if (!status)
            status = await_signal(place, place->parent, ALL_HEARD);
    }
    for (unsigned i = 0; !status && i < place->child_count; i++)
        status = send_signal(place, place->first_child + i, ALL_HEARD);
}
