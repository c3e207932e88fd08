#include "comm/mesh/inbox.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void message_free(struct message *message)
{
    if (!message)
        return;
    free(message->data);
    free(message);
}

void inbox_init(struct inbox *inbox, uint64_t window_bytes)
{
    *inbox = (struct inbox){.window_bytes = window_bytes};
    TAILQ_INIT(&inbox->posted);
    TAILQ_INIT(&inbox->accepting);
    TAILQ_INIT(&inbox->accepted);
    TAILQ_INIT(&inbox->messages);
}

static unsigned request_count(const struct mesh_requests *requests)
{
    unsigned count = 0;
    const struct mesh_request *request;
    TAILQ_FOREACH(request, requests, entry)
    count++;
    return count;
}

unsigned inbox_waiting(const struct inbox *inbox)
{
    bool claimed = inbox->arriving_message && inbox->arriving_message->claimant;
    return request_count(&inbox->posted) + request_count(&inbox->accepting) +
           request_count(&inbox->accepted) + (inbox->arriving_request ? 1 : 0) + (claimed ? 1 : 0);
}

struct message *inbox_find(struct inbox *inbox, uint64_t tag)
{
    struct message *message;
    TAILQ_FOREACH(message, &inbox->messages, entry)
    {
        if (message->tag == tag)
            return message;
    }
    return NULL;
}

static struct mesh_request *find_posted(struct inbox *inbox, uint64_t tag)
{
    struct mesh_request *request;
    TAILQ_FOREACH(request, &inbox->posted, entry)
    {
        if (request->tag == tag)
            return request;
    }
    return NULL;
}

/* ---- credit ---- */

static uint64_t charge_of(uint64_t size_bytes)
{
    return size_bytes + INBOX_MESSAGE_CHARGE;
}

static void pay_back(struct inbox *inbox, uint64_t size_bytes)
{
    assert(inbox->used_bytes >= charge_of(size_bytes));
    inbox->used_bytes -= charge_of(size_bytes);
    inbox->owed_bytes += charge_of(size_bytes);
}

bool inbox_owes(const struct inbox *inbox)
{
    return inbox->owed_bytes > inbox->window_bytes / 8;
}

uint64_t inbox_take_owed(struct inbox *inbox)
{
    if (!inbox_owes(inbox))
        return 0;
    uint64_t owed_bytes = inbox->owed_bytes;
    inbox->owed_bytes = 0;
    return owed_bytes;
}

/* ---- the callers' side ---- */

/* Pair the receive with the message; the message leaves the queue. */
static void claim(struct inbox *inbox, struct mesh_request *request, struct message *message)
{
    TAILQ_REMOVE(&inbox->messages, message, entry);
    if (message->offered) {
        request->offer = message->offer;
        inbox->offer_count--;
        message_free(message);
        TAILQ_INSERT_TAIL(&inbox->accepting, request, entry);
        return;
    }
    pay_back(inbox, message->size_bytes);
    request->message = message;
    if (message->complete)
        request_complete(request, 0);
    else
        message->claimant = request;
}

int inbox_post(struct inbox *inbox, struct mesh_request *request, size_t *ret_size)
{
    struct message *message = inbox_find(inbox, request->tag);
    if (!message) {
        TAILQ_INSERT_TAIL(&inbox->posted, request, entry);
        return 0;
    }
    if (message->size_bytes != request->size_bytes) {
        *ret_size = message->size_bytes;
        return -EMSGSIZE;
    }
    claim(inbox, request, message);
    return 0;
}

/* ---- the peer's side ---- */

static int message_new(uint64_t tag, size_t size_bytes, struct message **ret_message)
{
    struct message *message = calloc(1, sizeof(*message));
    if (!message)
        return -ENOMEM;
    message->tag = tag;
    message->size_bytes = size_bytes;
    *ret_message = message;
    return 0;
}

/* Match a receive with its message; a message of another size completes the receive with an
 * error. */
static int match(struct inbox *inbox, struct mesh_request *request, uint64_t size_bytes,
                 size_t *ret_size)
{
    TAILQ_REMOVE(&inbox->posted, request, entry);
    if (request->size_bytes == size_bytes)
        return 0;
    *ret_size = request->size_bytes;
    request_complete(request, -EMSGSIZE);
    return -EMSGSIZE;
}

int inbox_arrival(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint8_t **ret_destination,
                  size_t *ret_size)
{
    if (charge_of(size_bytes) > inbox->window_bytes - inbox->used_bytes - inbox->owed_bytes)
        return -EPROTO;
    struct mesh_request *request = find_posted(inbox, tag);
    if (request) {
        int status = match(inbox, request, size_bytes, ret_size);
        if (status < 0)
            return status;
        inbox->owed_bytes += charge_of(size_bytes);
        inbox->arriving_request = request;
        *ret_destination = request->data;
        return 0;
    }
    struct message *message;
    int status = message_new(tag, size_bytes, &message);
    if (status < 0)
        return status;
    message->data = malloc(MAX(size_bytes, (uint64_t)1));
    if (!message->data) {
        message_free(message);
        return -ENOMEM;
    }
    inbox->used_bytes += charge_of(size_bytes);
    inbox->arriving_message = message;
    TAILQ_INSERT_TAIL(&inbox->messages, message, entry);
    *ret_destination = message->data;
    return 0;
}

int inbox_offer(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint64_t offer,
                struct mesh_request **ret_request, size_t *ret_size)
{
    struct mesh_request *request = find_posted(inbox, tag);
    *ret_request = NULL;
    if (request) {
        int status = match(inbox, request, size_bytes, ret_size);
        if (status < 0)
            return status;
        request->offer = offer;
        TAILQ_INSERT_TAIL(&inbox->accepted, request, entry);
        *ret_request = request;
        return 0;
    }
    if (inbox->offer_count == INBOX_OFFERS_MAX)
        return -EPROTO;
    struct message *message;
    int status = message_new(tag, size_bytes, &message);
    if (status < 0)
        return status;
    message->offered = true;
    message->offer = offer;
    inbox->offer_count++;
    TAILQ_INSERT_TAIL(&inbox->messages, message, entry);
    return 0;
}

int inbox_delivery(struct inbox *inbox, uint64_t offer, uint64_t size_bytes,
                   uint8_t **ret_destination)
{
    struct mesh_request *request;
    TAILQ_FOREACH(request, &inbox->accepted, entry)
    {
        if (request->offer != offer)
            continue;
        if (request->size_bytes != size_bytes)
            return -EPROTO;
        TAILQ_REMOVE(&inbox->accepted, request, entry);
        inbox->arriving_request = request;
        *ret_destination = request->data;
        return 0;
    }
    return -EPROTO;
}

void inbox_arrived(struct inbox *inbox)
{
    struct message *message = inbox->arriving_message;
    if (inbox->arriving_request)
        request_complete(inbox->arriving_request, 0);
    if (message) {
        message->complete = true;
        if (message->claimant)
            request_complete(message->claimant, 0);
    }
    inbox->arriving_request = NULL;
    inbox->arriving_message = NULL;
}

static void fail_requests(struct mesh_requests *requests, int result)
{
    struct mesh_request *request;
    while ((request = TAILQ_FIRST(requests))) {
        TAILQ_REMOVE(requests, request, entry);
        request_complete(request, result);
    }
}

void inbox_fail(struct inbox *inbox, int result)
{
    fail_requests(&inbox->posted, result);
    fail_requests(&inbox->accepting, result);
    fail_requests(&inbox->accepted, result);
    if (inbox->arriving_request)
        request_complete(inbox->arriving_request, result);
    /* A message that was claimed while it arrived is in no queue: its request frees it. */
    if (inbox->arriving_message && inbox->arriving_message->claimant)
        request_complete(inbox->arriving_message->claimant, result);
    struct message *message;
    while ((message = TAILQ_FIRST(&inbox->messages))) {
        TAILQ_REMOVE(&inbox->messages, message, entry);
        message_free(message);
    }
    inbox->arriving_request = NULL;
    inbox->arriving_message = NULL;
}
