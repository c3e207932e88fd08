/* Send many small HTTP requests from firnctl to the nodes, side by side. A node that does not
 * answer in time is left out. */
#pragma once

#include "base/bytes.h"
#include "base/clock.h"
#include "ctl/cluster/cluster_client.h"
#include "ctl/view/name_list.h"

#define FETCH_URL_SIZE     256
#define FETCH_PROBLEM_SIZE 256
#define FETCH_QUICK_NS     (1500 * NS_PER_MS) /* for a node on the same network */

struct fetch {
    char url[FETCH_URL_SIZE];
    int status; /* 0: an answer; -EPROTO: an answer that the node cannot serve the request now */
    long code;  /* of HTTP; 0: no answer */
    char problem[FETCH_PROBLEM_SIZE]; /* of a certificate that is not trusted (-EKEYREJECTED) */
    struct bytes body;                /* if any: zero-terminated past its end */
};

/** fetch_all() - run all fetches, up to 256 at once; afterwards each has its status. The caller
 * frees the bodies */
void fetch_all(struct cluster_client *client, struct fetch *fetches, unsigned count,
               uint64_t timeout_ns);

/** fetch_note_silence() - add @node to @names if it did not answer, with the code of its refusal */
void fetch_note_silence(const struct fetch *fetch, const char *node, char names[NAME_LIST_SIZE]);

/** fetch_good() - return whether the node answered 200 */
bool fetch_good(const struct fetch *fetch);

/**
 * fetch_refused() - return whether @node refuses @client's token or its absence, or has a
 * certificate that is not trusted
 * @error: an earlier error is kept; otherwise names the node and the remedy
 */
bool fetch_refused(const struct cluster_client *client, const struct fetch *fetch, const char *node,
                   struct error *error);
