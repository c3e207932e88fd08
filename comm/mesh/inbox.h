/*
 * Matching what one peer sends with what was asked of it: posted receives on one side, messages
 * that nobody has asked for yet on the other. Messages and receives of one tag meet in order.
 *
 * Memory: a peer may have window_bytes of messages here that nobody asked for. It spends that
 * credit with every message that it sends at once and gets it back when the message is matched
 * (inbox_take_owed()). Beyond its credit it can only offer, and an offer costs a few bytes; of
 * those there are at most INBOX_OFFERS_MAX. A peer that takes more breaks the protocol.
 *
 * No lock and no I/O of its own: everything is called under the mesh's lock. The bytes of a message
 * are read outside of it, into the place that inbox_arrival() named.
 */
#pragma once

#include "comm/mesh/request.h"

#define INBOX_OFFERS_MAX     4096 /* messages of one peer that wait on its side for a receive */
#define INBOX_MESSAGE_CHARGE 64   /* what a message costs beyond its bytes */

/* A message, or the offer of one, that no receive has taken. */
struct message {
    TAILQ_ENTRY(message) entry;
    uint64_t tag;
    size_t size_bytes;
    bool offered; /* only announced; `offer` is its number */
    uint64_t offer;
    bool complete; /* all bytes are in */
    uint8_t *data;
    struct mesh_request *claimant; /* the receive that took it while it was arriving */
};
TAILQ_HEAD(messages, message);

struct inbox {
    struct mesh_requests posted;    /* nothing has come for them */
    struct mesh_requests accepting; /* matched with an offer by a caller: the peer is to be told */
    struct mesh_requests accepted;  /* the peer has been told, or is being told */
    struct messages messages;       /* not taken, in order of arrival */
    unsigned offer_count;
    uint64_t window_bytes, used_bytes, owed_bytes;

    /* The message that arrives now: goes to one of the two. */
    struct mesh_request *arriving_request;
    struct message *arriving_message;
};

void inbox_init(struct inbox *inbox, uint64_t window_bytes);

/** inbox_waiting() - receives that are not complete */
unsigned inbox_waiting(const struct inbox *inbox);

/**
 * inbox_post() - a receive
 *
 * It is complete on return, or linked to the message that arrives, or in `accepting` (the I/O
 * thread must be woken), or in `posted`. -EMSGSIZE: the message that it meets has another size
 * (*ret_size).
 */
int inbox_post(struct inbox *inbox, struct mesh_request *request, size_t *ret_size) CHECK_RESULT;

/** inbox_find() - the first message of a tag that nobody has taken, or NULL */
struct message *inbox_find(struct inbox *inbox, uint64_t tag);

/** inbox_arrival() - a message begins; -EMSGSIZE (of a receive of *ret_size), -EPROTO, -ENOMEM */
int inbox_arrival(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint8_t **ret_destination,
                  size_t *ret_size) CHECK_RESULT;

/** inbox_offer() - a message was announced; *ret_request: the receive that takes it, or NULL */
int inbox_offer(struct inbox *inbox, uint64_t tag, uint64_t size_bytes, uint64_t offer,
                struct mesh_request **ret_request, size_t *ret_size) CHECK_RESULT;

/** inbox_delivery() - the accepted message begins; -EPROTO when it was not accepted */
int inbox_delivery(struct inbox *inbox, uint64_t offer, uint64_t size_bytes,
                   uint8_t **ret_destination) CHECK_RESULT;

/** inbox_arrived() - the last byte of what began is in */
void inbox_arrived(struct inbox *inbox);

/** inbox_take_owed() - credit to give back now: 0 until it is worth a frame */
uint64_t inbox_take_owed(struct inbox *inbox);
bool inbox_owes(const struct inbox *inbox);

/** inbox_fail() - complete every receive with @result and free every message */
void inbox_fail(struct inbox *inbox, int result);

void message_free(struct message *message);
