#include "worker/step/bulk_transfer.h"

#include <errno.h>
#include <stdlib.h>

#define MESSAGE_BYTES ((size_t)4 << 20)

static int begin(struct bulk_transfer *transfer, size_t size_bytes)
{
    unsigned count = (unsigned)((size_bytes + MESSAGE_BYTES - 1) / MESSAGE_BYTES);

    *transfer = (struct bulk_transfer){.requests = calloc((size_t)count + 1, sizeof(void *))};
    if (!transfer->requests)
        return -ENOMEM;
    transfer->count = count;
    transfer->begun = true;
    return 0;
}

static size_t message_bytes(size_t size_bytes, unsigned index)
{
    return MIN(MESSAGE_BYTES, size_bytes - index * MESSAGE_BYTES);
}

int bulk_transfer_send(struct bulk_transfer *transfer, struct mesh *mesh, unsigned rank,
                       uint64_t tag, const void *data, size_t size_bytes)
{
    int status = begin(transfer, size_bytes);

    for (unsigned i = 0; !status && i < transfer->count; i++)
        status = mesh_send_bulk(mesh, rank, tag, (const char *)data + i * MESSAGE_BYTES,
                                message_bytes(size_bytes, i), &transfer->requests[i]);
    return status;
}

int bulk_transfer_receive(struct bulk_transfer *transfer, struct mesh *mesh, unsigned rank,
                          uint64_t tag, void *data, size_t size_bytes)
{
    int status = begin(transfer, size_bytes);

    for (unsigned i = 0; !status && i < transfer->count; i++)
        status = mesh_receive(mesh, rank, tag, (char *)data + i * MESSAGE_BYTES,
                              message_bytes(size_bytes, i), &transfer->requests[i]);
    return status;
}

int bulk_transfer_settle(struct bulk_transfer *transfer, bool waits)
{
    int status = 0;

    while (!status && transfer->done < transfer->count &&
           (waits || mesh_test(transfer->requests[transfer->done]))) {
        struct mesh_request *request = transfer->requests[transfer->done];
        transfer->requests[transfer->done] = NULL;
        status = mesh_wait(request, UINT64_MAX);
        if (!status)
            transfer->done++;
    }
    return status;
}

void bulk_transfer_close(struct bulk_transfer *transfer)
{
    for (unsigned i = 0; transfer->requests && i < transfer->count; i++)
        if (transfer->requests[i] && !mesh_wait(transfer->requests[i], UINT64_MAX))
            transfer->done++;
    free(transfer->requests);
    transfer->requests = NULL;
}
