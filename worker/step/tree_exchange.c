#include "worker/step/tree_exchange.h"

#include <errno.h>

#include "base/bytes.h"
#include "elastic/plan/commit_tree.h"

/* Indexes of the tags of tree_exchange_await_all(), after those of any question. */
enum message { HERE = 256, ALL_HERE };

static int receive(struct tree_exchange *exchange, uint64_t tag)
{
    struct tree_round *round = &exchange->round;
    AUTO_FREE void *message = NULL;
    size_t size_bytes = 0;
    int status =
        mesh_receive_any(exchange->mesh, round->peer, tag, UINT64_MAX, &message, &size_bytes);

    return status ? status : tree_round_take(round, message, size_bytes);
}

/* Send a message that is too large to be copied, and wait until it is sent. */
static int send_large(struct tree_exchange *exchange, unsigned first, unsigned count, uint64_t tag,
                      const struct bytes *message)
{
    struct mesh_request *requests[COMMIT_TREE_FAN];
    unsigned sent = 0;
    int status = 0;

    for (; !status && sent < count; sent += !status)
        status = mesh_send(exchange->mesh, first + sent, tag, message->data, message->size_bytes,
                           &requests[sent]);
    for (unsigned i = 0; i < sent; i++) {
        int waited = mesh_wait(requests[i], UINT64_MAX);
        status = status ? status : waited;
    }
    return status;
}

/* With a thousand ranks the claims of a dispute take megabytes. */
static int send_to(struct tree_exchange *exchange, unsigned first, unsigned count, uint64_t tag)
{
    CLEANUP(bytes_done) struct bytes message = {0};
    int status = tree_round_pack(&exchange->round, &message);

    if (!status && message.size_bytes > MESH_COPY_MAX_BYTES)
        return send_large(exchange, first, count, tag, &message);
    for (unsigned i = 0; !status && i < count; i++)
        status = mesh_send(exchange->mesh, first + i, tag, message.data, message.size_bytes, NULL);
    return status;
}

static int act(struct tree_exchange *exchange)
{
    struct tree_round *round = &exchange->round;

    switch (round->action) {
    case TREE_RECEIVE_PART:
        return receive(exchange, exchange->part_tag);
    case TREE_SEND_PART:
        return send_to(exchange, round->peer, 1, exchange->part_tag);
    case TREE_DECIDE:
        return tree_round_decide(round);
    case TREE_RECEIVE_ANSWER:
        return receive(exchange, exchange->answer_tag);
    case TREE_SEND_ANSWER:
        return send_to(exchange, round->first_child, round->child_count, exchange->answer_tag);
    case TREE_DONE:
        break;
    }
    return 0;
}

int tree_exchange_gather(struct tree_exchange *exchange)
{
    int status = 0;

    while (!status && exchange->round.action == TREE_RECEIVE_PART)
        status = act(exchange);
    return status;
}

int tree_exchange_run(struct tree_exchange *exchange)
{
    int status = 0;

    while (!status && exchange->round.action != TREE_DONE)
        status = act(exchange);
    return status;
}

void tree_exchange_await_all(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                             enum tag_kind kind, uint64_t step)
{
    struct tree_exchange exchange = {.mesh = mesh,
                                     .part_tag = tag_make(kind, step, HERE),
                                     .answer_tag = tag_make(kind, step, ALL_HERE)};

    tree_round_begin(&exchange.round, &tree_question_all_here, NULL, layout, rank);
    if (tree_exchange_run(&exchange))
        return; /* a link broke, but this rank knows the answer */
}
