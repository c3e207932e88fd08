#include "worker/step/tree_exchange.h"

#include <errno.h>

#include "base/bytes.h"
#include "elastic/plan/commit_tree.h"

/* Indexes of tree_exchange_await_all(), after those of the question. */
enum { HEARD = TREE_EXCHANGE_INDEX_MAX, ALL_HEARD };

void tree_exchange_init(struct tree_exchange *exchange, struct mesh *mesh,
                        const struct plan_layout *layout, unsigned rank, enum tag_kind kind,
                        uint64_t step)
{
    *exchange = (struct tree_exchange){.mesh = mesh, .kind = kind, .step = step, .rank = rank};
    exchange->child_count = commit_tree_children(layout, rank, &exchange->first_child);
    exchange->parent = rank ? commit_tree_parent(rank) : 0;
}

int tree_exchange_send(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                       const uint64_t *words, size_t count)
{
    AUTO_FREE uint8_t *message = malloc(8 * count + 1);

    if (!message)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        bytes_put_u64(message + 8 * i, words[i]);
    return mesh_send(exchange->mesh, peer, tag_make(exchange->kind, exchange->step, index), message,
                     8 * count, NULL);
}

int tree_exchange_receive_some(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                               size_t count_max, uint64_t **ret_words, size_t *ret_count)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status =
        mesh_receive_any(exchange->mesh, peer, tag_make(exchange->kind, exchange->step, index),
                         UINT64_MAX, &message, &size_bytes);

    if (!status && (size_bytes % 8 || size_bytes / 8 > count_max))
        status = -EBADMSG;
    if (status)
        return status;
    size_t count = size_bytes / 8;
    uint64_t *words = calloc(count + 1, sizeof(*words));
    if (!words)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        words[i] = bytes_get_u64((const uint8_t *)message + 8 * i);
    *ret_words = words;
    *ret_count = count;
    return 0;
}

int tree_exchange_receive(const struct tree_exchange *exchange, unsigned peer, unsigned index,
                          uint64_t *ret_words, size_t count)
{
    AUTO_FREE uint64_t *words = NULL;
    size_t received = 0;
    int status = tree_exchange_receive_some(exchange, peer, index, count, &words, &received);

    if (!status && received != count)
        status = -EBADMSG;
    for (size_t i = 0; !status && i < count; i++)
        ret_words[i] = words[i];
    return status;
}

void tree_exchange_await_all(const struct tree_exchange *exchange)
{
    int status = 0;

    for (unsigned i = 0; !status && i < exchange->child_count; i++)
        status = tree_exchange_receive(exchange, exchange->first_child + i, HEARD, NULL, 0);
    if (!status && exchange->rank) {
        status = tree_exchange_send(exchange, exchange->parent, HEARD, NULL, 0);
        if (!status)
            status = tree_exchange_receive(exchange, exchange->parent, ALL_HEARD, NULL, 0);
    }
    for (unsigned i = 0; !status && i < exchange->child_count; i++)
        status = tree_exchange_send(exchange, exchange->first_child + i, ALL_HEARD, NULL, 0);
}
