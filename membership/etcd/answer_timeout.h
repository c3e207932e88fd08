/*
 * How long to wait for a server's answer, learnt from its answers, as TCP learns when to send again
 * (RFC 6298).
 *
 * A server that is slow because a thousand clients ask at once gets nowhere if each gives up and
 * asks again: it works for those who have gone. So whoever waited in vain waits twice as long the
 * next time, up to a bound; an answer that took its time makes room for such answers, and one that
 * came at once lets the limit shrink again. Nobody knows at its start whether a thousand others
 * start too, so it begins with some patience.
 */
#pragma once

#include <stdint.h>

struct answer_timeout {
    uint64_t min_ns, max_ns;
    uint64_t limit_ns; /* how long to wait now */
};

/** answer_timeout_init() - @min_ns: while the server answers at once */
void answer_timeout_init(struct answer_timeout *patience, uint64_t min_ns);
/** answer_timeout_answered() - an answer came, after @took_ns */
void answer_timeout_answered(struct answer_timeout *patience, uint64_t took_ns);
/** answer_timeout_lost() - none came within @waited_ns, which was the limit when waiting began */
void answer_timeout_lost(struct answer_timeout *patience, uint64_t waited_ns);
