#include "daemon/suspicion.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "membership/http.h"

struct suspicion {
    struct daemon *daemon;
    struct http_client *client;
    struct http_request *question; /* NULL: none is open */
    char node[NAME_SIZE];          /* that it was put to */
};

static void on_answer(void *context, const struct http_answer *answer)
{
    struct suspicion *suspicion = context;
    struct daemon *daemon = suspicion->daemon;

    suspicion->question = NULL;
    if (answer->status == 0 || !daemon->election ||
        strcmp(election_leader(daemon->election), suspicion->node))
        return;
    log_warning("the leader %s lost its links and does not answer (%s): it is deposed",
                suspicion->node, answer->text ? answer->text : "no answer");
    election_depose(daemon->election);
}

static bool find_address(const struct daemon *daemon, const char *node,
                         char ret_address[ADDRESS_SIZE])
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(&daemon->mirror, keys_node(key, daemon->config->cluster, node));
    AUTO_JSON json_t *tree = NULL;
    struct node_record record;

    if (!entry || json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        node_record_decode(tree, &record, NULL))
        return false;
    snprintf(ret_address, ADDRESS_SIZE, "%s", record.http);
    return true;
}

void suspicion_raise(struct suspicion *suspicion, const char *node)
{
    struct daemon *daemon = suspicion->daemon;
    char address[ADDRESS_SIZE], url[ADDRESS_SIZE + 32];

    if (suspicion->question || !daemon->election ||
        strcmp(election_leader(daemon->election), node) || !find_address(daemon, node, address))
        return;
    snprintf(suspicion->node, sizeof(suspicion->node), "%s", node);
    snprintf(url, sizeof(url), "http://%s/v1/node", address);
    if (http_get(suspicion->client, url, daemon->config->failure_timeout_ns / 4, NULL, on_answer,
                 suspicion, &suspicion->question))
        log_warning("the leader %s cannot be asked whether it lives", node);
}

int suspicion_new(struct daemon *daemon, struct suspicion **ret_suspicion)
{
    const struct http_client_options options = {0};
    struct suspicion *suspicion = calloc(1, sizeof(*suspicion));
    int status;

    if (!suspicion)
        return -ENOMEM;
    suspicion->daemon = daemon;
    status = http_client_new(&daemon->loop.loop, &options, &suspicion->client);
    if (status)
        free(suspicion);
    else
        *ret_suspicion = suspicion;
    return status;
}

void suspicion_free(struct suspicion *suspicion)
{
    if (!suspicion)
        return;
    http_cancel(suspicion->question);
    http_client_free(suspicion->client);
    free(suspicion);
}
