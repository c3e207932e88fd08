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

struct patience {
    uint64_t min_ns, max_ns;
    uint64_t limit_ns; /* how long to wait now */
};

/** patience_init() - @min_ns: while the server answers at once */
void patience_init(struct patience *patience, uint64_t min_ns);
/** patience_answered() - an answer came, after @took_ns */
void patience_answered(struct patience *patience, uint64_t took_ns);
/** patience_lost() - none came within @waited_ns, which was the limit when waiting began */
void patience_lost(struct patience *patience, uint64_t waited_ns);
