#include "daemon/jobs/suspicion.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/http_url.h"
#include "base/json.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "daemon/core/daemon.h"
#include "membership/kv/keys.h"
#include "membership/transport/http.h"

struct suspicion {
    struct daemon *daemon;
    struct http_client *client;
    struct kv_request *search;     /* reading of the address of `node`; NULL: none in flight */
    struct http_request *question; /* HTTP request to the suspect; NULL: none in flight */
    char node[NAME_SIZE];          /* the suspect */
};

static void on_answer(void *context, const struct http_answer *answer)
{
    struct suspicion *suspicion = context;
    struct daemon *daemon = suspicion->daemon;

    suspicion->question = NULL;
    if (answer->status == -EKEYREJECTED) /* but it is alive */
        log_warning(
            "this node does not trust the certificate of the leader %s: %s; http_authorities "
            "in firnd.yaml must name the nodes' authority",
            suspicion->node, answer->text);
    if (answer->status == 0 || answer->status == -EKEYREJECTED || !daemon->node.election ||
        strcmp(election_leader(daemon->node.election), suspicion->node))
        return;
    log_warning("links to the leader %s broke and it does not answer (%s); deposing it",
                suspicion->node, answer->text ? answer->text : "no answer");
    election_depose(daemon->node.election);
}

static void put_question(struct suspicion *suspicion, const char *address)
{
    struct daemon *daemon = suspicion->daemon;
    char url[ADDRESS_SIZE + 32];

    snprintf(url, sizeof(url), "%s%s/v1/node", http_url_scheme(address), address);
    if (http_get(suspicion->client, url, daemon->config->failure_timeout_ns / TIMEOUT_PARTS_SUSPECT,
                 NULL, on_answer, suspicion, &suspicion->question))
        log_warning("cannot ask the leader %s whether it is alive", suspicion->node);
}

/* A suspect without a registration has no address; its leadership ends with its lease. */
static void on_found(void *context, const struct kv_result *result)
{
    struct suspicion *suspicion = context;
    struct node_record record;
    AUTO_JSON json_t *tree = NULL;

    suspicion->search = NULL;
    if (result->status || !result->entry_count)
        return;
    const struct kv_entry *entry = &result->entries[0];
    if (!json_parse(entry->value, entry->value_bytes, entry->key, &tree, NULL) &&
        !node_record_decode(tree, &record, NULL))
        put_question(suspicion, record.http);
}

void suspicion_raise(struct suspicion *suspicion, const char *node)
{
    struct daemon *daemon = suspicion->daemon;
    const struct kv *kv = daemon->keys.kv;
    char key[KV_KEY_MAX];

    if (suspicion->search || suspicion->question || !daemon->node.election ||
        strcmp(election_leader(daemon->node.election), node))
        return;
    snprintf(suspicion->node, sizeof(suspicion->node), "%s", node);
    keys_node(key, daemon->config->cluster, node);
    if (kv->range(kv->context, key, false, on_found, suspicion, &suspicion->search)) {
        suspicion->search = NULL;
        log_warning("cannot ask the leader %s whether it is alive", node);
    }
}

int suspicion_new(struct daemon *daemon, struct suspicion **ret_suspicion)
{
    struct suspicion *suspicion = calloc(1, sizeof(*suspicion));
    int status;

    if (!suspicion)
        return -ENOMEM;
    suspicion->daemon = daemon;
    status = http_client_new(&daemon->loop.loop, &suspicion->client);
    if (status) {
        free(suspicion);
        return status;
    }
    http_client_set_token(suspicion->client, daemon->http_token);
    *ret_suspicion = suspicion;
    return 0;
}

void suspicion_free(struct suspicion *suspicion)
{
    if (!suspicion)
        return;
    suspicion->daemon->keys.kv->cancel(suspicion->daemon->keys.kv->context, suspicion->search);
    http_cancel(suspicion->question);
    http_client_free(suspicion->client);
    free(suspicion);
}
