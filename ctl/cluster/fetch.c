#include "ctl/cluster/fetch.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

#define ROUND_TIMEOUTS 2   /* request timeouts after which a round ends in any case */
#define AT_ONCE        256 /* each is a connection; a user may have 1,024 descriptors */

struct round {
    struct cluster_client *client;
    struct started *started;
    unsigned count, next; /* number of fetches; the next to begin */
    uint64_t timeout_ns;
    unsigned pending;
    bool done;
};

struct started {
    struct round *round;
    struct fetch *fetch;
    struct http_request *request;
};

static void on_done(void *context, const struct http_answer *answer);

/* Begin fetches until enough are under way. */
static void go_on(struct round *round)
{
    for (; round->next < round->count && round->pending < AT_ONCE; round->next++) {
        struct started *started = &round->started[round->next];
        started->fetch->status =
            http_get(round->client->http, started->fetch->url, round->timeout_ns, NULL, on_done,
                     started, &started->request);
        round->pending += started->fetch->status == 0;
    }
    round->done = round->pending == 0;
}

/* Return whether the answer is about the node's files; others, such as 503 of a busy node, say
 * nothing about them. */
static bool is_answer(long code)
{
    return code == 200 || code == 401 || code == 404;
}

static void on_done(void *context, const struct http_answer *answer)
{
    struct started *started = context;
    struct fetch *fetch = started->fetch;

    started->request = NULL;
    fetch->status = answer->status;
    fetch->code = answer->code;
    if (answer->status == -EKEYREJECTED)
        snprintf(fetch->problem, sizeof(fetch->problem), "%s", answer->text);
    if (!answer->status && (bytes_append(&fetch->body, answer->body, answer->body_bytes) ||
                            bytes_append(&fetch->body, "", 1)))
        fetch->status = -ENOMEM;
    else if (!answer->status)
        fetch->body.size_bytes--; /* the terminating zero does not count */
    if (!fetch->status && !is_answer(fetch->code))
        fetch->status = -EPROTO;
    started->round->pending--;
    go_on(started->round);
}

void fetch_all(struct cluster_client *client, struct fetch *fetches, unsigned count,
               uint64_t timeout_ns)
{
    AUTO_FREE struct started *started = calloc(count + 1u, sizeof(*started));
    struct round round = {
        .client = client, .started = started, .count = count, .timeout_ns = timeout_ns};
    uint64_t rounds = ROUND_TIMEOUTS + count / AT_ONCE;

    for (unsigned i = 0; i < count; i++) {
        fetches[i].status = started ? -ETIMEDOUT : -ENOMEM;
        if (started)
            started[i] = (struct started){.round = &round, .fetch = &fetches[i]};
    }
    if (started)
        go_on(&round);
    if (!round.pending ||
        !poll_loop_run(client->loop, &round.done, clock_monotonic_ns() + rounds * timeout_ns))
        return;
    for (unsigned i = 0; i < count; i++)
        if (started[i].request) {
            http_cancel(started[i].request);
            fetches[i].status = -ETIMEDOUT;
        }
}

void fetch_note_silence(const struct fetch *fetch, const char *node, char names[NAME_LIST_SIZE])
{
    char name[NAME_SIZE + 32];

    if (!fetch->status)
        return;
    if (fetch->status == -EPROTO)
        snprintf(name, sizeof(name), "%s (HTTP %ld)", node, fetch->code);
    else
        snprintf(name, sizeof(name), "%s", node);
    name_list_add(names, name);
}

bool fetch_good(const struct fetch *fetch)
{
    return !fetch->status && fetch->code == 200;
}

bool fetch_refused(const struct cluster_client *client, const struct fetch *fetch, const char *node,
                   struct error *error)
{
    bool untrusted = fetch->status == -EKEYREJECTED;

    if (!untrusted && (fetch->status || fetch->code != 401))
        return false;
    if (!error->code && untrusted)
        error_set(error, -EACCES,
                  "node %s: %s. --authorities or FIRN_AUTHORITIES names the file of the authority "
                  "that signs the nodes' certificates (http_authorities in their firnd.yaml)",
                  node, fetch->problem);
    else if (!error->code && client->token_file[0])
        error_set(
            error, -EACCES,
            "node %s refuses the token of %.200s; use the token of http_token in its firnd.yaml",
            node, client->token_file);
    else if (!error->code)
        error_set(
            error, -EACCES,
            "node %s requires the cluster's token; set --token-file or FIRN_TOKEN_FILE to the "
            "file that holds it (http_token in its firnd.yaml)",
            node);
    return true;
}
