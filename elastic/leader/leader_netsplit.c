#include "elastic/leader/leader_netsplit.h"

#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/leader/leader_readers.h"

/* The nodes at the ends of the cuts that are believed now, ordered by name. */
struct cut_field {
    struct cut_node nodes[NETSPLIT_NODES_MAX];
    const struct member *who[NETSPLIT_NODES_MAX];
    unsigned count;
};

/* ---- remembering cuts ---- */

/* Return how long a cut is believed after the pair was missed @times times. */
static uint64_t term_ns(const struct leader_context *context, unsigned times)
{
    return timeouts_doubled(TIMEOUTS_NETSPLIT_MIN, times, TIMEOUTS_NETSPLIT_MAX) *
           context->view->failure_timeout_ns;
}

/* Return whether the entry is so old that a new report is about another cut. Two attempts may be as
 * far apart as the duration of the workers' operations. */
static bool is_forgotten(const struct leader_context *context, const struct leader_netsplit *cut)
{
    return context->view->now_ns >= MAX(cut->seen_ns, cut->until_ns) +
                                        TIMEOUTS_NETSPLIT_MAX * context->view->failure_timeout_ns;
}

static bool is_between(const struct leader_netsplit *cut, const struct member *a,
                       const struct member *b)
{
    return strcmp(cut->nodes[0], a->name) == 0 && cut->incarnations[0] == a->incarnation &&
           strcmp(cut->nodes[1], b->name) == 0 && cut->incarnations[1] == b->incarnation;
}

/* Return the pair's entry; if there is none, the entry that was seen the longest ago, emptied. */
static struct leader_netsplit *entry_of(struct leader_context *context, const struct member *a,
                                        const struct member *b)
{
    struct leader_netsplit *cuts = context->memory->netsplits, *oldest = &cuts[0];
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++) {
        if (is_between(&cuts[i], a, b) && !is_forgotten(context, &cuts[i]))
            return &cuts[i];
        if (cuts[i].seen_ns < oldest->seen_ns)
            oldest = &cuts[i];
    }
    *oldest = (struct leader_netsplit){.incarnations = {a->incarnation, b->incarnation}};
    memcpy(oldest->nodes[0], a->name, sizeof(oldest->nodes[0]));
    memcpy(oldest->nodes[1], b->name, sizeof(oldest->nodes[1]));
    return oldest;
}

static void note_pair(struct leader_context *context, const struct member *a,
                      const struct member *b)
{
    const struct leader_view *view = context->view;
    struct leader_netsplit *cut =
        strcmp(a->name, b->name) < 0 ? entry_of(context, a, b) : entry_of(context, b, a);
    if (cut->generation == view->plan->generation)
        return;
    if (cut->generation != 0 || view->plan->links.patient) { /* patient: missed before */
        cut->times++;
        cut->until_ns = view->now_ns + term_ns(context, cut->times);
    }
    cut->generation = view->plan->generation;
    cut->seen_ns = view->now_ns;
}

/* Return whether the node has reported under the plan in force; if not, it may be dead. */
static bool has_spoken(const struct leader_context *context, const struct member *node)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node == node && member->report)
            return true;
    }
    return false;
}

static void note_report(struct leader_context *context, const struct roster_member *member)
{
    const struct plan *plan = context->view->plan;
    for (unsigned i = 0; i < member->report->unreached_count; i++) {
        unsigned rank = member->report->unreached[i];
        const struct member *other =
            rank < plan->layout.worker_count + plan->layout.donor_count
                ? roster_node(&context->roster, plan->layout.workers[rank].node)
                : NULL;
        if (other && other != member->node && has_spoken(context, other))
            note_pair(context, member->node, other);
    }
}

void leader_netsplit_note(struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node && member->report && member->report->phase == WORKER_STUCK &&
            member->report->generation == context->view->plan->generation)
            note_report(context, member);
    }
}

/* ---- choosing nodes to leave out ---- */

static bool computes(const struct leader_context *context, const struct member *node)
{
    const struct plan *plan = context->view->plan;
    int rank = plan ? plan_layout_find_node(&plan->layout, node->name) : -1;
    return rank >= 0 && (unsigned)rank < plan->layout.worker_count;
}

static bool takes_part(const struct plan_layout *layout, const struct member *node)
{
    return plan_layout_find_node(layout, node->name) >= 0;
}

/* Return the node's place in the field, added if needed; NETSPLIT_NODES_MAX: there is no more room.
 */
static unsigned place_of(struct cut_field *field, const struct member *node)
{
    unsigned place = 0;
    while (place < field->count && strcmp(field->who[place]->name, node->name) < 0)
        place++;
    if (place < field->count && field->who[place] == node)
        return place;
    if (field->count == NETSPLIT_NODES_MAX)
        return NETSPLIT_NODES_MAX;
    memmove(&field->who[place + 1], &field->who[place],
            (field->count - place) * sizeof(field->who[0]));
    field->who[place] = node;
    field->count++;
    return place;
}

/* Find both ends of a pair; false if one is gone or has a new firnd. */
static bool find_pair(const struct leader_context *context, const struct leader_netsplit *cut,
                      const struct member *ret_ends[2])
{
    for (unsigned end = 0; end < 2; end++) {
        ret_ends[end] = roster_node(&context->roster, cut->nodes[end]);
        if (!ret_ends[end] || ret_ends[end]->incarnation != cut->incarnations[end])
            return false;
    }
    return true;
}

static bool is_believed(const struct leader_context *context, const struct leader_netsplit *cut)
{
    return cut->until_ns > context->view->now_ns;
}

/* Find both ends of a believed cut that counts now. */
static bool find_ends(const struct leader_context *context, const struct leader_netsplit *cut,
                      const struct member *ret_ends[2])
{
    return is_believed(context, cut) && find_pair(context, cut, ret_ends) &&
           !(context->readers_only && (leader_readers_lack(context, ret_ends[0]) ||
                                       leader_readers_lack(context, ret_ends[1])));
}

static void list_nodes(struct leader_context *context, struct cut_field *field)
{
    const struct member *ends[2];
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++) {
        const struct leader_netsplit *cut = &context->memory->netsplits[i];
        if (!find_ends(context, cut, ends))
            continue;
        leader_wake(context, cut->until_ns);
        if (place_of(field, ends[0]) < NETSPLIT_NODES_MAX)
            (void)place_of(field, ends[1]);
    }
}

static void list_cuts(const struct leader_context *context, struct cut_field *field)
{
    const struct member *ends[2];
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++) {
        if (!find_ends(context, &context->memory->netsplits[i], ends))
            continue;
        unsigned a = place_of(field, ends[0]), b = place_of(field, ends[1]);
        if (a == NETSPLIT_NODES_MAX || b == NETSPLIT_NODES_MAX)
            continue;
        field->nodes[a].cut_from |= (uint32_t)1 << b;
        field->nodes[b].cut_from |= (uint32_t)1 << a;
    }
}

void leader_netsplit_mended(struct leader_context *context)
{
    const struct member *ends[2];
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++) {
        struct leader_netsplit *cut = &context->memory->netsplits[i];
        if (!find_pair(context, cut, ends) || !computes(context, ends[0]) ||
            !computes(context, ends[1]))
            continue;
        if (is_believed(context, cut))
            cut->until_ns = context->view->now_ns;
        else if (cut->until_ns == 0) /* missed once, by chance */
            *cut = (struct leader_netsplit){0};
    }
}

struct question {
    struct leader_context *context;
    const struct cut_field *field;
    bool (*may_go)(const struct leader_context *context, const void *argument);
    const void *argument;
};

static void leave_out(struct leader_context *context, const struct cut_field *field, uint32_t set)
{
    context->left_out_count = 0;
    for (unsigned i = 0; i < field->count; i++)
        if (set >> i & 1)
            context->left_out[context->left_out_count++] = field->who[i];
}

static bool ask(const void *argument, uint32_t set)
{
    const struct question *question = argument;
    leave_out(question->context, question->field, set);
    return question->may_go(question->context, question->argument);
}

void leader_netsplit_choose(struct leader_context *context,
                            bool (*may_go)(const struct leader_context *context,
                                           const void *argument),
                            const void *argument)
{
    struct cut_field field = {0};
    list_nodes(context, &field);
    list_cuts(context, &field);
    for (unsigned i = 0; i < field.count; i++) {
        field.nodes[i].slot_count = field.who[i]->slot_count;
        field.nodes[i].stays = !may_go && computes(context, field.who[i]);
    }
    struct question question = {context, &field, may_go, argument};
    leave_out(context, &field,
              netsplit_graph_leave_out(field.nodes, field.count, may_go ? ask : NULL, &question));
}

static bool stays(void *context, const char *name)
{
    const struct leader_context *const *leader = context;
    const struct member *node = roster_node(&(*leader)->roster, name);
    return node && !leader_netsplit_leave_out(*leader, node);
}

/* Return whether every share of the checkpoint is on a node that is not left out. */
static bool checkpoint_stays(const struct leader_context *context, const void *argument)
{
    const char *shares = context->view->checkpoint.shares;
    (void)argument;
    return !shares || copies_left(shares, stays, &context) > 0;
}

static bool any_may_go(const struct leader_context *context, const void *argument)
{
    (void)context;
    (void)argument;
    return true;
}

/* Leave out nodes that cannot read the checkpoint, in addition to those left out for cuts. */
static void leave_out_readers(struct leader_context *context)
{
    for (unsigned i = 0; i < context->view->node_count; i++) {
        const struct member *node = &context->view->nodes[i];
        if (context->left_out_count < NETSPLIT_NODES_MAX && leader_readers_lack(context, node) &&
            !leader_netsplit_leave_out(context, node))
            context->left_out[context->left_out_count++] = node;
    }
}

static void choose_ends_for_checkpoint(struct leader_context *context)
{
    leader_netsplit_choose(context, checkpoint_stays, NULL);
    if (context->left_out_count == 0)
        leader_netsplit_choose(context, any_may_go, NULL);
}

void leader_netsplit_choose_for_checkpoint(struct leader_context *context)
{
    leader_readers_note(context);
    context->readers_only = true;
    choose_ends_for_checkpoint(context);
    context->readers_only = false;
    leave_out_readers(context);
}

bool leader_netsplit_take_in_readers(struct leader_context *context)
{
    bool somebody = false;
    for (unsigned i = 0; i < context->left_out_count; i++)
        somebody = somebody || leader_readers_lack(context, context->left_out[i]);
    if (somebody)
        choose_ends_for_checkpoint(context);
    return somebody;
}

bool leader_netsplit_leave_out(const struct leader_context *context, const struct member *node)
{
    for (unsigned i = 0; i < context->left_out_count; i++)
        if (context->left_out[i] == node)
            return true;
    return false;
}

bool leader_netsplit_give_in(struct leader_context *context)
{
    bool somebody = context->left_out_count > 0;
    context->left_out_count = 0;
    return somebody;
}

/* Find a cut both of whose ends @layout needs; false: there is none. */
static bool find_parted(const struct leader_context *context, const struct plan_layout *layout,
                        const struct member *end, const struct member *ret_ends[2])
{
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++)
        if (find_ends(context, &context->memory->netsplits[i], ret_ends) &&
            (!end || end == ret_ends[0] || end == ret_ends[1]) && takes_part(layout, ret_ends[0]) &&
            takes_part(layout, ret_ends[1]))
            return true;
    return false;
}

bool leader_netsplit_parts(const struct leader_context *context, const struct plan_layout *layout,
                           const struct member *end)
{
    const struct member *ends[2];
    return find_parted(context, layout, end, ends);
}

const char *leader_netsplit_parted_words(const struct leader_context *context,
                                         const struct plan_layout *layout, char *ret_words,
                                         size_t size)
{
    const struct member *ends[2];
    if (!find_parted(context, layout, NULL, ends))
        return NULL;
    snprintf(ret_words, size,
             "%.40s and %.40s do not reach each other, and neither can be done without",
             ends[0]->name, ends[1]->name);
    return ret_words;
}

/* Return whether @cut was missed in a later generation than @other, or more often. */
static bool is_newer(const struct leader_netsplit *cut, const struct leader_netsplit *other)
{
    return cut->generation != other->generation ? cut->generation > other->generation
                                                : cut->times > other->times;
}

/* Return the most recently missed cut among those for which a node is left out: older cuts may be
 * mended. */
static const struct leader_netsplit *find_reason(const struct leader_context *context)
{
    const struct leader_netsplit *found = NULL;
    const struct member *ends[2];
    for (unsigned i = 0; i < LEADER_NETSPLITS_MAX; i++) {
        const struct leader_netsplit *cut = &context->memory->netsplits[i];
        if (find_ends(context, cut, ends) && (!found || is_newer(cut, found)) &&
            (leader_netsplit_leave_out(context, ends[0]) ||
             leader_netsplit_leave_out(context, ends[1])))
            found = cut;
    }
    return found;
}

const char *leader_netsplit_words(const struct leader_context *context, char *ret_words,
                                  size_t size)
{
    const struct member *ends[2];
    const struct leader_netsplit *cut = find_reason(context);
    if (!cut || !find_ends(context, cut, ends))
        return NULL;
    unsigned end = leader_netsplit_leave_out(context, ends[0]) ? 0 : 1;
    int used = snprintf(ret_words, size, "%.40s and %.40s do not reach each other: without %.40s",
                        ends[0]->name, ends[1]->name, ends[end]->name);
    if (context->left_out_count > 1 && used > 0 && (size_t)used < size)
        snprintf(ret_words + used, size - (size_t)used, " and %u more",
                 context->left_out_count - 1);
    return ret_words;
}

void leader_netsplit_say(struct leader_context *context)
{
    char words[160];
    if (leader_netsplit_words(context, words, sizeof(words)))
        leader_add(context, "; %s", words);
}
