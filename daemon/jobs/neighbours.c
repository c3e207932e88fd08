#include "daemon/jobs/neighbours.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/http_url.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/jobs/neighbours_file.h"
#include "membership/kv/keys.h"
#include "membership/transport/http.h"

#define REFRESH_NS (10 * NS_PER_SECOND)
#define REFRESH_EACH_NS                                                                            \
    (300 * NS_PER_MS) /* added per node: every five minutes with a thousand nodes */
#define ANSWER_NS NS_PER_SECOND
#define ROUND_NS  (400 * NS_PER_MS) /* minimum time between the starts of two rounds */

struct question {
    struct neighbours *neighbours;
    char name[NAME_SIZE];         /* node asked */
    struct http_request *request; /* NULL: none in flight */
};

struct neighbours {
    struct daemon *daemon;
    struct http_client *client;
    void (*told)(void *context);
    void *context;
    struct neighbour list[NEIGHBOURS_MAX]; /* registered nodes first */
    unsigned count, total;                 /* registered nodes; with earlier nodes */
    unsigned next, next_earlier;           /* next node to ask, registered and earlier */
    bool known;                            /* the list has been read from etcd once */
    struct kv_request *search;             /* reading of the list; NULL: none in flight */
    uint64_t refresh_ns;                   /* time of the next reading */
    struct question questions[NEIGHBOURS_PER_ROUND];
    uint64_t round_ns;                       /* earliest time of the next round */
    unsigned open_count;                     /* requests in flight; 0: no round */
    unsigned counted_reaching, counted_away; /* answers of the current round */
    unsigned reaching, away;                 /* answers of the last round */
    bool refused;                            /* logged that a node and this one refuse each other */
};

static uint64_t now_ns(const struct neighbours *neighbours)
{
    const struct loop *loop = &neighbours->daemon->loop.loop;
    return loop->now_ns(loop->context);
}

/* ---- the list ---- */

static void add(struct neighbours *neighbours, const struct kv_entry *entry)
{
    const struct config *config = neighbours->daemon->config;
    struct neighbour *neighbour = &neighbours->list[neighbours->count];
    struct node_record record;
    AUTO_JSON json_t *tree = NULL;

    if (!keys_match_node(entry->key, config->cluster, neighbour->name) ||
        !strcmp(neighbour->name, config->node) ||
        json_parse(entry->value, entry->value_bytes, entry->key, &tree, NULL) ||
        node_record_decode(tree, &record, NULL))
        return;
    memcpy(neighbour->http, record.http, sizeof(neighbour->http));
    neighbours->count++;
}

static bool is_listed(const struct neighbours *neighbours, const char *name)
{
    for (unsigned i = 0; i < neighbours->total; i++)
        if (!strcmp(neighbours->list[i].name, name))
            return true;
    return false;
}

/* Keep the other nodes of @before, which are no longer registered, behind the registered ones. */
static void keep_earlier(struct neighbours *neighbours, const struct neighbour *before,
                         unsigned count)
{
    neighbours->total = neighbours->count;
    for (unsigned i = 0; i < count && neighbours->total < NEIGHBOURS_MAX; i++)
        if (!is_listed(neighbours, before[i].name))
            neighbours->list[neighbours->total++] = before[i];
}

/* If there are more nodes than room, take every n-th one, and keep no earlier nodes. */
static void take_entries(struct neighbours *neighbours, const struct kv_result *result)
{
    struct neighbour before[NEIGHBOURS_MAX] = {0};
    unsigned count = neighbours->total;
    size_t stride = result->entry_count / NEIGHBOURS_MAX + 1;

    memcpy(before, neighbours->list, sizeof(before));
    memset(neighbours->list, 0, sizeof(neighbours->list));
    neighbours->count = 0;
    for (size_t i = 0; i < result->entry_count && neighbours->count < NEIGHBOURS_MAX; i += stride)
        add(neighbours, &result->entries[i]);
    keep_earlier(neighbours, before, stride == 1 ? count : 0);
    if (neighbours->total != count || memcmp(before, neighbours->list, sizeof(before)) != 0)
        neighbours_save(neighbours->daemon->config, neighbours->list, neighbours->total);
}

static void on_found(void *context, const struct kv_result *result)
{
    struct neighbours *neighbours = context;

    neighbours->search = NULL;
    if (result->status) { /* keep the old list */
        if (!neighbours->known)
            neighbours->refresh_ns = now_ns(neighbours);
        return;
    }
    neighbours->known = true;
    take_entries(neighbours, result);
    neighbours->refresh_ns =
        now_ns(neighbours) + REFRESH_NS + result->entry_count * REFRESH_EACH_NS;
}

uint64_t neighbours_refresh(struct neighbours *neighbours)
{
    const struct kv *kv = neighbours->daemon->keys.kv;
    char key[KV_KEY_MAX];
    uint64_t now = now_ns(neighbours);

    if (neighbours->search || now < neighbours->refresh_ns)
        return MAX(neighbours->refresh_ns, now + NS_PER_SECOND);
    neighbours->refresh_ns = now + REFRESH_NS;
    keys_nodes(key, neighbours->daemon->config->cluster);
    if (kv->range(kv->context, key, true, on_found, neighbours, &neighbours->search))
        neighbours->search = NULL;
    return neighbours->refresh_ns;
}

/* ---- answers ---- */

/* Check the sender: another node may have the address by now. */
static bool is_from(const json_t *tree, const char *key, const char *expected)
{
    char found[NAME_SIZE];

    return !json_get_text(tree, key, found, sizeof(found), NULL) && !strcmp(found, expected);
}

static void count_answer(const struct question *question, const struct http_answer *answer)
{
    struct neighbours *neighbours = question->neighbours;
    AUTO_JSON json_t *tree = NULL;
    char lease[16];

    if (answer->status || answer->code != 200 ||
        json_parse((const char *)answer->body, answer->body_bytes, "an answer", &tree, NULL) ||
        !is_from(tree, "node", question->name) ||
        !is_from(tree, "cluster", neighbours->daemon->config->cluster) ||
        json_get_text(tree, "lease", lease, sizeof(lease), NULL))
        return;
    neighbours->counted_reaching += !strcmp(lease, "safe");
    neighbours->counted_away += !strcmp(lease, "doubt");
}

/* Log that a node and this one refuse each other. Such nodes cannot confirm that etcd is away
 * for all of them. */
static void note_refusal(struct neighbours *neighbours, const struct question *question,
                         const struct http_answer *answer)
{
    bool token = !answer->status && answer->code == 401;

    if (neighbours->refused || (!token && answer->status != -EKEYREJECTED))
        return;
    neighbours->refused = true;
    if (token)
        log_warning("node %s rejects this node's HTTP token; http_token must name the same "
                    "token in every firnd.yaml of the cluster",
                    question->name);
    else
        log_warning("this node does not trust the certificate of node %s: %s; http_authorities in "
                    "firnd.yaml must name the nodes' authority",
                    question->name, answer->text);
}

static void end_round(struct neighbours *neighbours)
{
    neighbours->reaching = neighbours->counted_reaching;
    neighbours->away = neighbours->counted_away;
    neighbours->told(neighbours->context);
}

static void on_answer(void *context, const struct http_answer *answer)
{
    struct question *question = context;
    struct neighbours *neighbours = question->neighbours;

    question->request = NULL;
    count_answer(question, answer);
    note_refusal(neighbours, question, answer);
    if (--neighbours->open_count == 0)
        end_round(neighbours);
}

/* Choose registered nodes first, then earlier ones; round robin within each group. */
static const struct neighbour *choose(struct neighbours *neighbours, unsigned place)
{
    if (place < neighbours->count)
        return &neighbours->list[neighbours->next++ % neighbours->count];
    return &neighbours->list[neighbours->count +
                             neighbours->next_earlier++ % (neighbours->total - neighbours->count)];
}

static bool put_question(struct neighbours *neighbours, unsigned place)
{
    const struct neighbour *neighbour = choose(neighbours, place);
    struct question *question = &neighbours->questions[place];
    char url[ADDRESS_SIZE + 32];

    snprintf(url, sizeof(url), "%s%s/v1/node", http_url_scheme(neighbour->http), neighbour->http);
    snprintf(question->name, sizeof(question->name), "%s", neighbour->name);
    question->neighbours = neighbours;
    return http_get(neighbours->client, url, ANSWER_NS, NULL, on_answer, question,
                    &question->request) == 0;
}

void neighbours_ask(struct neighbours *neighbours)
{
    unsigned count = MIN(neighbours->total, (unsigned)NEIGHBOURS_PER_ROUND);

    if (neighbours->open_count > 0 || now_ns(neighbours) < neighbours->round_ns)
        return;
    neighbours->round_ns = now_ns(neighbours) + ROUND_NS;
    neighbours->counted_reaching = neighbours->counted_away = 0;
    for (unsigned i = 0; i < count; i++)
        neighbours->open_count += put_question(neighbours, i);
}

void neighbours_forget(struct neighbours *neighbours)
{
    for (unsigned i = 0; i < NEIGHBOURS_PER_ROUND; i++) {
        http_cancel(neighbours->questions[i].request);
        neighbours->questions[i].request = NULL;
    }
    neighbours->open_count = neighbours->reaching = neighbours->away = 0;
}

bool neighbours_known(const struct neighbours *neighbours)
{
    return neighbours->known;
}

unsigned neighbours_count(const struct neighbours *neighbours)
{
    return neighbours->count;
}

void neighbours_answers(const struct neighbours *neighbours, unsigned *ret_reaching,
                        unsigned *ret_away)
{
    *ret_reaching = neighbours->reaching;
    *ret_away = neighbours->away;
}

/* ---- start and end ---- */

int neighbours_new(struct daemon *daemon, void (*told)(void *context), void *context,
                   struct neighbours **ret_neighbours)
{
    struct neighbours *neighbours = calloc(1, sizeof(*neighbours));
    int status;

    if (!neighbours)
        return -ENOMEM;
    neighbours->daemon = daemon;
    neighbours->told = told;
    neighbours->context = context;
    neighbours->total = neighbours_load(daemon->config, neighbours->list);
    status = http_client_new(&daemon->loop.loop, &neighbours->client);
    if (status) {
        free(neighbours);
        return status;
    }
    http_client_set_token(neighbours->client, daemon->http_token);
    *ret_neighbours = neighbours;
    return 0;
}

void neighbours_free(struct neighbours *neighbours)
{
    if (!neighbours)
        return;
    neighbours->daemon->keys.kv->cancel(neighbours->daemon->keys.kv->context, neighbours->search);
    neighbours_forget(neighbours);
    http_client_free(neighbours->client);
    free(neighbours);
}
