/*
 * Match the messages of one peer with the posted receives. Messages without a receive, and receives
 * without a message, wait here. Messages and receives of one tag match in order.
 *
 * Memory: a peer may have window_bytes of messages here without a posted receive. The peer spends
 * that credit with every message that it sends at once and gets it back when the message is matched
 * (inbox_take_owed()). Beyond its credit the peer can only offer messages. An offer costs a few
 * bytes, and a peer has at most INBOX_OFFERS_MAX of them. A peer that exceeds a limit breaks the
 * protocol.
 *
 * It has no lock and no I/O of its own: every function is called under the mesh's lock. The bytes
 * of a message are read without the lock, to the place that inbox_arrival() returned.
 */
#pragma once

#include "comm/mesh/request.h"

#define INBOX_OFFERS_MAX     4096 /* messages of one peer that wait on its side for a receive */
#define INBOX_MESSAGE_CHARGE 64   /* credit that a message costs beyond its bytes */

/* A message, or the offer of a message, that no receive has taken. */
struct message {
    TAILQ_ENTRY(message) entry;
    uint64_t tag;
    size_t size_bytes;
    bool offered; /* only announced; `offer` is its number */
    uint64_t offer;
    bool complete; /* all bytes have arrived */
    uint8_t *data;
    struct mesh_request *claimant; /* the receive that took it while it was arriving */
};
TAILQ_HEAD(messages, message);

struct inbox {
    struct mesh_requests posted;    /* receives without a message or offer */
    struct mesh_requests accepting; /* matched with an offer by a caller; ACCEPT is still to be
                                     * sent */
    struct mesh_requests accepted;  /* ACCEPT was sent or is being sent */
    struct messages messages;       /* not taken, in order of arrival */
    unsigned offer_count;
    uint64_t window_bytes, used_bytes, owed_bytes;

    /* Destination of the message that arrives now: one of the two. */
    struct mesh_request *arriving_request;
    struct message *arriving_message;
};

void inbox_init(struct inbox *inbox, uint64_t window_bytes);

/** inbox_waiting() - count the receives that are not complete */
unsigned inbox_waiting(const struct inbox *inbox);

/**
 * inbox_post() - post a receive
 *
 * It is complete on return, or linked to the message that arrives, or in `accepting` (the I/O
 * thread must be woken), or in `posted`. -EMSGSIZE: the matching message has another size
 * (*ret_size).
 */
int inbox_post(struct inbox *inbox, struct mesh_request *request, size_t *ret_size) CHECK_RESULT;

/** inbox_find() - return the first message of a tag that no receive has taken, or NULL */
struct message *inbox_find(struct inbox *inbox, uint64_t tag);

/** inbox_arrival() - begin a message; -EMSGSIZE (of a receive of *ret_size), -EPROTO, -ENOMEM */
int inbox_arrival(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint8_t **ret_destination,
                  size_t *ret_size) CHECK_RESULT;

/** inbox_offer() - record an announced message; *ret_request: the receive that takes it, or NULL */
int inbox_offer(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint64_t offer,
                struct mesh_request **ret_request, size_t *ret_size) CHECK_RESULT;

/** inbox_delivery() - begin an accepted message; -EPROTO when it was not accepted */
int inbox_delivery(struct inbox *inbox, uint64_t offer, uint64_t size_bytes,
                   uint8_t **ret_destination) CHECK_RESULT;

/** inbox_arrived() - complete the message that arrives: its last byte is here */
void inbox_arrived(struct inbox *inbox);

/** inbox_take_owed() - return the credit to grant now: 0 until it is worth a frame */
uint64_t inbox_take_owed(struct inbox *inbox);
bool inbox_owes(const struct inbox *inbox);

/** inbox_fail() - complete every receive with @result and free every message */
void inbox_fail(struct inbox *inbox, int result);

void message_free(struct message *message);
