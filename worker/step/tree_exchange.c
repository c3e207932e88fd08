#include "worker/step/tree_exchange.h"

#include <errno.h>

#include "base/bytes.h"
#include "elastic/plan/commit_tree.h"

/* Indexes of tree_exchange_await_all(), after those of the question. */
enum { HEARD = TREE_EXCHANGE_INDEX_MAX, ALL_HEARD };

void tree_exchange_init(struct tree_exchange *assembly, struct mesh *mesh,
                        const struct plan_layout *layout, unsigned rank, enum tag_kind kind,
                        uint64_t step)
{
    *assembly = (struct tree_exchange){.mesh = mesh, .kind = kind, .step = step, .rank = rank};
    assembly->child_count = commit_tree_children(layout, rank, &assembly->first_child);
    assembly->parent = rank ? commit_tree_parent(rank) : 0;
}

int tree_exchange_send(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                       const uint64_t *words, size_t count)
{
    AUTO_FREE uint8_t *message = malloc(8 * count + 1);

    if (!message)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        bytes_put_u64(message + 8 * i, words[i]);
    return mesh_send(assembly->mesh, peer, tag_make(assembly->kind, assembly->step, index), message,
                     8 * count, NULL);
}

int tree_exchange_receive_some(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                               size_t count_max, uint64_t **ret_words, size_t *ret_count)
{
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status =
        mesh_receive_any(assembly->mesh, peer, tag_make(assembly->kind, assembly->step, index),
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

int tree_exchange_receive(const struct tree_exchange *assembly, unsigned peer, unsigned index,
                          uint64_t *ret_words, size_t count)
{
    AUTO_FREE uint64_t *words = NULL;
    size_t received = 0;
    int status = tree_exchange_receive_some(assembly, peer, index, count, &words, &received);

    if (!status && received != count)
        status = -EBADMSG;
    for (size_t i = 0; !status && i < count; i++)
        ret_words[i] = words[i];
    return status;
}

void tree_exchange_await_all(const struct tree_exchange *assembly)
{
    int status = 0;

    for (unsigned i = 0; !status && i < assembly->child_count; i++)
        status = tree_exchange_receive(assembly, assembly->first_child + i, HEARD, NULL, 0);
    if (!status && assembly->rank) {
        status = tree_exchange_send(assembly, assembly->parent, HEARD, NULL, 0);
        if (!status)
            status = tree_exchange_receive(assembly, assembly->parent, ALL_HEARD, NULL, 0);
    }
    for (unsigned i = 0; !status && i < assembly->child_count; i++)
        status = tree_exchange_send(assembly, assembly->first_child + i, ALL_HEARD, NULL, 0);
}
