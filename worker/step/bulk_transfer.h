/*
 * One large buffer on its way between two ranks: in bulk messages of a few megabytes, so that a
 * message of the step waits for no more than one of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "comm/mesh/mesh.h"

/* Zeroed: nothing to wait for. */
struct bulk_transfer {
    struct mesh_request **requests; /* owned; NULL where they are done */
    unsigned count, done;
    bool begun;
};

/** bulk_transfer_send() - post the messages of a buffer, which is borrowed until the transfer is
 * done or closed. Return: as mesh_send(); bulk_transfer_close() it in any case */
int bulk_transfer_send(struct bulk_transfer *transfer, struct mesh *mesh, unsigned rank,
                       uint64_t tag, const void *data, size_t size_bytes) CHECK_RESULT;
/** bulk_transfer_receive() - the same for a buffer that is received */
int bulk_transfer_receive(struct bulk_transfer *transfer, struct mesh *mesh, unsigned rank,
                          uint64_t tag, void *data, size_t size_bytes) CHECK_RESULT;

/** bulk_transfer_is_done() - return whether it was begun and all messages are known to be through
 */
static inline bool bulk_transfer_is_done(const struct bulk_transfer *transfer)
{
    return transfer->begun && transfer->done == transfer->count;
}

/** bulk_transfer_settle() - take the results of the messages that are through, or wait for all.
 * Errors as mesh_wait() */
int bulk_transfer_settle(struct bulk_transfer *transfer, bool waits) CHECK_RESULT;

/** bulk_transfer_close() - wait for all that was posted, and free it; afterwards
 * bulk_transfer_is_done() tells whether all of it went through */
void bulk_transfer_close(struct bulk_transfer *transfer);
