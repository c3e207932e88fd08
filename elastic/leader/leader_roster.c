/*
 * Problem: reports arrive node by node, late, and about processes that the plan does not know; the
 * meaning of a report depends on the plan that it is about.
 *
 * Design: one list of members: each rank of the plan in force with its node and its report, and
 * every other process that a report names. Each member gets one state, its seat; all decisions read
 * seats.
 *
 * The seat of a stuck worker depends on its generation. Stuck in the plan's own generation, it is
 * broken. Stuck in the generation before a planned plan, it is broken too: it will never reach the
 * boundary of the switch. Stuck in the generation before a plan that answers that very failure, or
 * left behind even earlier, it is merely joining: the job continued without it. A worker that the
 * answer to a failure leaves out has stepped aside: until that plan has begun, its state may be the
 * last copy of a unit.
 */
#include "elastic/leader/leader_roster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int compare_members(const void *a, const void *b)
{
    const struct roster_member *left = a, *right = b;
    int order = strcmp(left->node_name, right->node_name);
    return order != 0 ? order : (left->slot > right->slot) - (left->slot < right->slot);
}

static int compare_nodes(const void *a, const void *b)
{
    const struct member *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

const struct member *roster_node(const struct roster *roster, const char *name)
{
    struct member key;
    const struct member *pointer = &key, **found;
    snprintf(key.name, sizeof(key.name), "%s", name);
    found =
        bsearch(&pointer, roster->nodes, roster->view->node_count, sizeof(*found), compare_nodes);
    return found ? *found : NULL;
}

const struct roster_member *roster_find(const struct roster *roster, const char *node,
                                        unsigned slot)
{
    struct roster_member key = {.node_name = node, .slot = slot};
    return bsearch(&key, roster->members, roster->count, sizeof(key), compare_members);
}

/* Return whether a worker that broke was in the generation that @plan follows: such a worker never
 * reaches the boundary of the switch. */
static bool should_switch(const struct plan *plan, const struct worker_report *report)
{
    return plan->change.planned && report->generation >= plan->follows;
}

static enum seat seat_of_generation(const struct plan *plan, const struct worker_report *report)
{
    switch (report->phase) {
    case WORKER_RUNNING:
    case WORKER_FINISHED:
        return report->generation == plan->generation ? SEAT_RUNNING : SEAT_JOINING;
    case WORKER_STUCK:
        return report->generation == plan->generation || should_switch(plan, report) ? SEAT_BROKEN
                                                                                     : SEAT_JOINING;
    case WORKER_STARTING:
    case WORKER_PREPARED:
        return SEAT_JOINING;
    case WORKER_LEFT:
        return SEAT_LEFT;
    case WORKER_DEAD:
    case WORKER_REFUSED:
    case WORKER_BAD:
        break;
    }
    return SEAT_LOST;
}

static bool stands_aside(const struct worker_report *report)
{
    return report->phase == WORKER_STUCK && report->cause == CAUSE_LEFT_OUT;
}

static enum seat seat_of(const struct plan *plan, const struct roster_member *member)
{
    const struct worker_report *report = member->report;
    if (!report)
        return SEAT_SILENT;
    enum seat seat = seat_of_generation(plan, report);
    if (member->rank < 0 && stands_aside(report))
        return SEAT_ASIDE;
    if (member->rank < 0)
        return worker_report_is_fresh(report) ? SEAT_SPARE : seat;
    bool worker = (unsigned)member->rank < plan->layout.worker_count;
    uint64_t instance = plan->layout.workers[member->rank].instance;
    if (instance != 0 && report->instance != instance)
        return !worker && worker_report_is_fresh(report) ? SEAT_SPARE : SEAT_LOST;
    /* A donor may leave; a worker that computes may not. */
    return seat == SEAT_LEFT && worker ? SEAT_LOST : seat;
}

static int compare_reports(const void *a, const void *b)
{
    const struct node_report *const *left = a, *const *right = b;
    return strcmp((*left)->node, (*right)->node);
}

/*
 * List the reports that count: each node's of the plan in force and, until a planned switch, the
 * last one of the previous generation from nodes that may not have heard of the plan yet. All their
 * workers train, even without a rank in the plan: the plan may fail, and they have the state.
 * @ret_reports has view->report_count entries.
 */
static unsigned list_reports(const struct leader_view *view, const struct node_report **ret_reports)
{
    const struct plan *plan = view->plan;
    unsigned count = 0;
    for (unsigned r = 0; r < view->report_count; r++)
        if (view->reports[r]->generation == plan->generation)
            ret_reports[count++] = view->reports[r];
    if (!plan->change.planned || view->progress.generation >= plan->generation)
        return count;
    unsigned current = count;
    qsort(ret_reports, current, sizeof(*ret_reports), compare_reports);
    for (unsigned r = 0; r < view->report_count; r++) {
        const struct node_report *report = view->reports[r];
        if (report->generation == plan->follows &&
            !bsearch(&report, ret_reports, current, sizeof(*ret_reports), compare_reports))
            ret_reports[count++] = report;
    }
    return count;
}

/* Note the last reports of nodes that have not reported on the plan in force. */
static void note_before(const struct leader_view *view, struct roster_member *members,
                        unsigned ranked)
{
    for (unsigned r = 0; r < view->report_count; r++) {
        const struct node_report *node = view->reports[r];
        for (unsigned w = 0; node->generation == view->plan->follows && w < node->worker_count;
             w++) {
            const struct roster_member key = {.node_name = node->node,
                                              .slot = node->workers[w].slot};
            struct roster_member *known =
                bsearch(&key, members, ranked, sizeof(key), compare_members);
            if (known && !known->report)
                known->before = &node->workers[w];
        }
    }
}

/* Return whether the job continued without the worker: a later generation than its own, or the one
 * that leaves it out, has committed. Its node's report may be from before the node failed, when no
 * plan needs the worker any more. */
static bool is_left_behind(const struct leader_view *view, const struct worker_report *report)
{
    uint64_t own = report->generation;
    return own != 0 && (own < view->progress.generation ||
                        (own == view->progress.generation && stands_aside(report)));
}

/* Return whether the report is of a process without state that another firnd of the node started:
 * the present firnd has not found the process, or it would have reported it. The report may have
 * reached etcd after the node was gone. */
static bool is_of_another_firnd(const struct member *node, const struct node_report *report,
                                const struct worker_report *worker)
{
    return node && report->incarnation != 0 && report->incarnation != node->incarnation &&
           worker_report_is_fresh(worker);
}

/* List every rank of the plan, and every reported process without one, sorted by node and slot. */
static unsigned list_members(const struct roster *roster, const struct node_report **reports,
                             struct roster_member *members)
{
    unsigned count = 0;
    const struct leader_view *view = roster->view;
    const struct plan *plan = view->plan;
    for (unsigned rank = 0; rank < plan->layout.worker_count + plan->layout.donor_count; rank++)
        members[count++] = (struct roster_member){.node_name = plan->layout.workers[rank].node,
                                                  .slot = plan->layout.workers[rank].slot,
                                                  .rank = (int)rank};
    qsort(members, count, sizeof(*members), compare_members);
    unsigned ranked = count, report_count = list_reports(view, reports);
    for (unsigned r = 0; r < report_count; r++) {
        const struct node_report *report = reports[r];
        const struct member *node = roster_node(roster, report->node);
        for (unsigned w = 0; w < report->worker_count; w++) {
            struct roster_member member = {.node_name = report->node,
                                           .slot = report->workers[w].slot,
                                           .rank = -1,
                                           .report = &report->workers[w]};
            struct roster_member *known =
                bsearch(&member, members, ranked, sizeof(member), compare_members);
            bool current = report->generation == plan->generation;
            bool counts = current || !is_left_behind(view, member.report);
            if (known && current)
                known->report = member.report;
            else if (!known && counts && !is_of_another_firnd(node, report, member.report))
                members[count++] = member;
        }
    }
    if (plan->start.source == PLAN_SOURCE_MEMORY)
        note_before(view, members, ranked);
    qsort(members, count, sizeof(*members), compare_members);
    return count;
}

/* Return whether the process that the plan names died before it entered this generation. */
static bool died_before_joining(const struct plan *plan, const struct roster_member *member)
{
    uint64_t instance = plan->layout.workers[member->rank].instance;
    return member->seat == SEAT_LOST && member->report->generation < plan->generation &&
           (instance == 0 || instance == member->report->instance);
}

static void summarize(struct roster *roster)
{
    const struct plan *plan = roster->view->plan;
    roster->all_running = plan->layout.worker_count > 0;
    for (unsigned i = 0; i < roster->count; i++) {
        struct roster_member *member = &roster->members[i];
        member->node = roster_node(roster, member->node_name);
        member->seat = seat_of(plan, member);
        if (!roster_is_worker(roster, member))
            continue;
        roster->any_running = roster->any_running || member->seat == SEAT_RUNNING;
        roster->all_running = roster->all_running && member->seat == SEAT_RUNNING;
        if (died_before_joining(plan, member))
            roster->never_started = true;
    }
}

int roster_init(struct roster *roster, const struct leader_view *view)
{
    *roster = (struct roster){.view = view};
    size_t room = 1;
    if (view->plan) {
        room += (size_t)view->plan->layout.worker_count + view->plan->layout.donor_count;
        for (unsigned r = 0; r < view->report_count; r++)
            room += view->reports[r]->worker_count;
    }
    AUTO_FREE const struct node_report **reports =
        calloc((size_t)view->report_count + 1, sizeof(const struct node_report *));
    roster->members = calloc(room, sizeof(*roster->members));
    roster->nodes = calloc((size_t)view->node_count + 1, sizeof(const struct member *));
    if (!reports || !roster->members || !roster->nodes) {
        roster_done(roster);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < view->node_count; i++)
        roster->nodes[i] = &view->nodes[i];
    qsort(roster->nodes, view->node_count, sizeof(const struct member *), compare_nodes);
    if (view->plan) {
        roster->count = list_members(roster, reports, roster->members);
        summarize(roster);
    }
    return 0;
}

void roster_done(struct roster *roster)
{
    free(roster->members);
    free(roster->nodes);
    *roster = (struct roster){0};
}

bool roster_is_worker(const struct roster *roster, const struct roster_member *member)
{
    return member->rank >= 0 && (unsigned)member->rank < roster->view->plan->layout.worker_count;
}

bool roster_alive(const struct roster_member *member)
{
    return member->node && member->seat != SEAT_LOST && member->seat != SEAT_LEFT;
}

bool roster_has_state(const struct roster_member *member)
{
    return member->report &&
           (member->report->held_unit_count > 0 || member->report->old_unit_count > 0);
}

/* Return the index of the first member of @node, or its place. It bisects, because the leader asks
 * for every node, and a thousand nodes have thousands of members. */
static unsigned first_of(const struct roster *roster, const char *node)
{
    unsigned first = 0, end = roster->count;
    while (first < end) {
        unsigned middle = first + (end - first) / 2;
        if (strcmp(roster->members[middle].node_name, node) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

const char *roster_refused(const struct roster *roster, const char *node)
{
    for (unsigned i = first_of(roster, node); i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (strcmp(member->node_name, node) != 0)
            break;
        if (member->report && member->report->phase == WORKER_REFUSED)
            return member->report->text;
    }
    return NULL;
}

const struct worker_report *roster_diverged(const struct roster *roster)
{
    for (unsigned i = 0; i < roster->count; i++)
        if (roster->members[i].report && roster->members[i].report->cause == CAUSE_DIVERGED)
            return roster->members[i].report;
    return NULL;
}

bool roster_disputed(const struct roster *roster)
{
    for (unsigned i = 0; i < roster->count; i++)
        if (roster->members[i].seat == SEAT_BROKEN &&
            roster->members[i].report->cause == CAUSE_STATE_DISPUTED)
            return true;
    return false;
}

/* Return whether the report is about the plan in force or the switch to it, and not about an
 * earlier failure. */
static bool is_of_now(const struct plan *plan, const struct worker_report *report)
{
    return report->generation >= plan->generation || should_switch(plan, report);
}

bool roster_accused(const struct roster *roster, const struct roster_member *member)
{
    size_t length = strlen(member->node_name);
    for (unsigned i = 0; i < roster->count; i++) {
        const struct worker_report *report = roster->members[i].report;
        if (report && member->report && !is_of_now(roster->view->plan, report))
            continue;
        for (unsigned n = 0; report && n < report->lost_count; n++)
            if (strncmp(report->lost[n], member->node_name, length) == 0 &&
                report->lost[n][length] == '/')
                return true;
    }
    return false;
}
