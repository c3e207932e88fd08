/*
 * Decide how long to wait for a server's answer, from the times of its earlier answers, like TCP's
 * retransmission timeout (RFC 6298).
 *
 * A server that is slow because a thousand clients ask at once makes no progress if each client
 * gives up and retries: it works on abandoned requests. So a timeout doubles the limit, up to a
 * maximum; a slow answer raises the limit, and a fast answer lets it shrink again. A starting
 * client does not know whether a thousand others start too, so the limit begins above its minimum.
 */
#pragma once

#include <stdint.h>

struct answer_timeout {
    uint64_t min_ns, max_ns;
    uint64_t limit_ns; /* current limit */
};

/** answer_timeout_init() - @min_ns: the limit while the server answers at once */
void answer_timeout_init(struct answer_timeout *patience, uint64_t min_ns);
/** answer_timeout_answered() - record an answer that took @took_ns */
void answer_timeout_answered(struct answer_timeout *patience, uint64_t took_ns);
/** answer_timeout_lost() - record that no answer came within @waited_ns, which was the limit when
 * waiting began */
void answer_timeout_lost(struct answer_timeout *patience, uint64_t waited_ns);
