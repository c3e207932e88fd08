/* Many small HTTP answers at once: what firnctl asks the nodes. A node that does not answer in time
 * is left out, never waited for. */
#pragma once

#include "base/bytes.h"
#include "base/clock.h"
#include "ctl/cluster/cluster_client.h"

#define FETCH_URL_SIZE     256
#define FETCH_PROBLEM_SIZE 256
#define FETCH_QUICK_NS     (1500 * NS_PER_MS) /* for a node on the same network */

struct fetch {
    char url[FETCH_URL_SIZE];
    int status; /* 0: an answer came */
    long code;
    char problem[FETCH_PROBLEM_SIZE]; /* of a certificate that is not trusted (-EKEYREJECTED) */
    struct bytes body;                /* zero-terminated past its end where there is one */
};

/** fetch_all() - at once; afterwards each has its status. Bodies are the caller's to free */
void fetch_all(struct cluster_client *store, struct fetch *fetches, unsigned count,
               uint64_t timeout_ns);

/** fetch_good() - it answered 200 */
bool fetch_good(const struct fetch *fetch);

/**
 * fetch_refused() - whether @node wants a token that @store has not, or another one, or shows a
 * certificate that is not trusted
 * @error: keeps what it says already; else it says which node it is, and what to do
 */
bool fetch_refused(const struct cluster_client *store, const struct fetch *fetch, const char *node,
                   struct error *error);
