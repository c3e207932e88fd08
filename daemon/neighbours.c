#include "daemon/neighbours.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "membership/http.h"

#define REFRESH_NS (10 * NS_PER_SECOND)
#define REFRESH_EACH_NS                                                                            \
    (300 * NS_PER_MS) /* more for every node: a thousand ask every five minutes */
#define ANSWER_NS NS_PER_SECOND
#define ROUND_NS  (400 * NS_PER_MS) /* between the beginnings of two rounds, at least */

struct neighbour {
    char name[NAME_SIZE];
    char http[ADDRESS_SIZE];
};

struct question {
    struct neighbours *neighbours;
    struct http_request *request; /* NULL: none is open */
};

struct neighbours {
    struct daemon *daemon;
    struct http_client *client;
    void (*told)(void *context);
    void *context;
    struct neighbour list[NEIGHBOURS_MAX];
    unsigned count, next;
    bool known;                /* they have been read once */
    struct kv_request *search; /* for who they are; NULL: none is open */
    uint64_t refresh_ns;       /* when to look again */
    struct question questions[NEIGHBOURS_PER_ROUND];
    uint64_t round_ns;                       /* when the next round may begin */
    unsigned open_count;                     /* of the round that is under way; 0: none is */
    unsigned counted_reaching, counted_away; /* in it so far */
    unsigned reaching, away;                 /* in the one before */
};

static uint64_t now_ns(const struct neighbours *neighbours)
{
    const struct loop *loop = &neighbours->daemon->loop.loop;
    return loop->now_ns(loop->context);
}

/* ---- who they are ---- */

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

static void on_found(void *context, const struct kv_result *result)
{
    struct neighbours *neighbours = context;

    neighbours->search = NULL;
    if (result->status) { /* those of before are better than none */
        if (!neighbours->known)
            neighbours->refresh_ns = now_ns(neighbours);
        return;
    }
    neighbours->known = true;
    size_t stride = result->entry_count / NEIGHBOURS_MAX + 1;
    neighbours->count = 0;
    for (size_t i = 0; i < result->entry_count && neighbours->count < NEIGHBOURS_MAX; i += stride)
        add(neighbours, &result->entries[i]);
    neighbours->refresh_ns =
        now_ns(neighbours) + REFRESH_NS + result->entry_count * REFRESH_EACH_NS;
}

uint64_t neighbours_refresh(struct neighbours *neighbours)
{
    const struct kv *kv = neighbours->daemon->kv;
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

/* ---- what they answer ---- */

static void count_answer(struct neighbours *neighbours, const struct http_answer *answer)
{
    AUTO_JSON json_t *tree = NULL;
    char lease[16];

    if (answer->status || answer->code != 200 ||
        json_parse((const char *)answer->body, answer->body_bytes, "an answer", &tree, NULL) ||
        json_get_text(tree, "lease", lease, sizeof(lease), NULL))
        return;
    neighbours->counted_reaching += !strcmp(lease, "safe");
    neighbours->counted_away += !strcmp(lease, "doubt");
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
    count_answer(neighbours, answer);
    if (--neighbours->open_count == 0)
        end_round(neighbours);
}

static bool put_question(struct neighbours *neighbours, struct question *question)
{
    const struct neighbour *neighbour = &neighbours->list[neighbours->next++ % neighbours->count];
    char url[ADDRESS_SIZE + 32];

    snprintf(url, sizeof(url), "http://%s/v1/node", neighbour->http);
    question->neighbours = neighbours;
    return http_get(neighbours->client, url, ANSWER_NS, NULL, on_answer, question,
                    &question->request) == 0;
}

void neighbours_ask(struct neighbours *neighbours)
{
    unsigned count = MIN(neighbours->count, (unsigned)NEIGHBOURS_PER_ROUND);

    if (neighbours->open_count > 0 || now_ns(neighbours) < neighbours->round_ns)
        return;
    neighbours->round_ns = now_ns(neighbours) + ROUND_NS;
    neighbours->counted_reaching = neighbours->counted_away = 0;
    for (unsigned i = 0; i < count; i++)
        neighbours->open_count += put_question(neighbours, &neighbours->questions[i]);
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
    status = http_client_new(&daemon->loop.loop, &neighbours->client);
    if (status)
        free(neighbours);
    else
        *ret_neighbours = neighbours;
    return status;
}

void neighbours_free(struct neighbours *neighbours)
{
    if (!neighbours)
        return;
    neighbours->daemon->kv->cancel(neighbours->daemon->kv->context, neighbours->search);
    neighbours_forget(neighbours);
    http_client_free(neighbours->client);
    free(neighbours);
}
