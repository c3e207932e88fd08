/*
 * Slots and layouts for the leader: the slots that a plan may use, and the planner's layouts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pace.h"
#include "elastic/leader/leader_slow.h"
#include "elastic/leader/leader_starting.h"
#include "elastic/planner/shadow_stages.h"
#include "elastic/planner/start_time.h"

#define HOLDERS_SHOWN 4 /* jobs that a message names */

void slot_pool_done(struct slot_pool *pool)
{
    free(pool->slots);
    *pool = (struct slot_pool){0};
}

int slot_pool_add(struct leader_context *context, struct slot_pool *pool, const struct member *node,
                  unsigned slot, uint64_t instance, const struct state_moves_range *held)
{
    if (pool->count == pool->room) {
        unsigned room = pool->room == 0 ? 32 : 2 * pool->room;
        struct planner_slot *grown = realloc(pool->slots, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        pool->slots = grown;
        pool->room = room;
    }
    struct planner_slot *added = &pool->slots[pool->count];
    memset(added, 0, sizeof(*added));
    snprintf(added->node, sizeof(added->node), "%s", node->name);
    int length = snprintf(added->address, sizeof(added->address), "%s:%u", node->host,
                          node->link_port + slot);
    if (length >= (int)sizeof(added->address))
        return -EINVAL;
    added->slot = slot;
    added->instance = instance;
    added->measured = node->measured;
    for (unsigned i = 0; i < node->slot_count; i++)
        if (node->slots[i].index == slot) {
            added->memory_bytes = node->slots[i].memory_bytes;
            added->gpu = node->slots[i].gpu;
            added->threads = node->slots[i].threads;
            added->speed = node->slots[i].speed * leader_slow_speed(context, node, slot);
        }
    if (held) {
        added->held_first_unit = held->first;
        added->held_unit_count = held->count;
    }
    pool->count++;
    return 0;
}

static struct leader_avoided *find_avoided(const struct leader_context *context,
                                           const struct member *node, unsigned slot)
{
    for (unsigned i = 0; i < LEADER_AVOIDED_MAX; i++) {
        struct leader_avoided *avoided = &context->memory->avoided.slots[i];
        if (avoided->timeouts && avoided->slot == slot &&
            avoided->incarnation == node->incarnation && strcmp(avoided->node, node->name) == 0)
            return avoided;
    }
    return NULL;
}

/* Return whether the slot is avoided; if so, wake the leader at the end of that time. */
static bool is_avoided(struct leader_context *context, const struct member *node, unsigned slot)
{
    const struct leader_avoided *avoided = find_avoided(context, node, slot);

    if (!avoided || avoided->until_ns <= context->view->now_ns)
        return false;
    leader_wake(context, avoided->until_ns);
    return true;
}

/* Return whether the slot has no process, or only one without state that any plan may take over. */
static bool is_vacant(const struct leader_context *context, const char *node, unsigned slot)
{
    const struct roster_member *member = roster_find(&context->roster, node, slot);
    if (!member || member->seat == SEAT_LEFT || member->seat == SEAT_SPARE)
        return true;
    if (member->seat == SEAT_ASIDE) /* its state is not needed, and it leaves when told to */
        return context->roster.all_running && !context->memory->failure_seen.is_set;
    if (member->seat == SEAT_LOST)
        return member->report->phase == WORKER_DEAD || member->report->phase == WORKER_LEFT;
    if (roster_has_state(member))
        return false;
    return member->seat == SEAT_BROKEN ||
           (member->seat == SEAT_JOINING &&
            (member->report->phase == WORKER_STARTING || member->report->phase == WORKER_PREPARED));
}

void leader_avoid(struct leader_context *context, const char *node_name, unsigned slot)
{
    struct leader_avoidance *avoidance = &context->memory->avoided;
    uint64_t now_ns = context->view->now_ns, timeout_ns = context->view->failure_timeout_ns;
    const struct member *node = roster_node(&context->roster, node_name);
    if (!node || is_avoided(context, node, slot))
        return;
    struct leader_avoided *avoided = find_avoided(context, node, slot);
    unsigned timeouts = TIMEOUTS_AVOID_MIN;
    if (!avoided)
        avoided = &avoidance->slots[avoidance->next++ % LEADER_AVOIDED_MAX];
    else if (now_ns < avoided->until_ns + TIMEOUTS_AVOID_MAX * timeout_ns)
        timeouts = MIN(2 * avoided->timeouts, (unsigned)TIMEOUTS_AVOID_MAX);
    *avoided = (struct leader_avoided){
        .incarnation = node->incarnation,
        .slot = slot,
        .timeouts = timeouts,
        .until_ns = now_ns + timeouts * timeout_ns,
    };
    snprintf(avoided->node, sizeof(avoided->node), "%s", node_name);
    leader_wake(context, avoided->until_ns);
}

int slot_pool_add_free(struct leader_context *context, struct slot_pool *pool, unsigned kept)
{
    struct leader_compatibility kind = leader_compatibility(context);
    unsigned before = pool->count;
    for (unsigned n = 0; n < context->view->node_count; n++) {
        const struct member *node = &context->view->nodes[n];
        if (node->draining || roster_refused(&context->roster, node->name) ||
            leader_netsplit_leave_out(context, node))
            continue;
        for (unsigned i = 0; i < node->slot_count; i++) {
            const struct member_slot *slot = &node->slots[i];
            if (slot->bad || slot->busy || !leader_compatibility_has(&kind, node, slot) ||
                !is_vacant(context, node->name, slot->index) ||
                is_avoided(context, node, slot->index))
                continue;
            int status = slot_pool_add(context, pool, node, slot->index, 0, NULL);
            if (status < 0)
                return status;
        }
    }
    pool->count -= MIN(kept, pool->count - before);
    return 0;
}

static int make_input(const struct leader_context *context, const struct slot_pool *pool,
                      unsigned frozen_layers, struct planner_unit **ret_units,
                      struct planner_input *ret_input)
{
    const struct leader_view *view = context->view;
    struct planner_unit *units = calloc(job_model_unit_count(&view->spec->model), sizeof(*units));
    if (!units)
        return -ENOMEM;
    planner_job(view->spec, frozen_layers, pool ? pool->slots : NULL, pool ? pool->count : 0, units,
                ret_input);
    planner_keep(ret_input, units, &view->progress.kept);
    ret_input->devices_max = MAX(leader_devices_now(context), pool ? pool->devices_least : 0);
    ret_input->stages_wanted = view->wish.stages;
    ret_input->replicas_wanted = view->wish.replicas;
    if (context->shape_wanted.stages > 0) {
        ret_input->stages_wanted = context->shape_wanted.stages;
        ret_input->replicas_wanted = context->shape_wanted.replicas;
    }
    ret_input->avoided = context->shape_avoided;
    *ret_units = units;
    return 0;
}

int leader_layout(struct leader_context *context, const struct slot_pool *pool,
                  unsigned frozen_layers, struct plan **ret_plan)
{
    AUTO_FREE struct planner_unit *units = NULL;
    struct planner_input input;
    struct plan *plan = plan_new();
    int status = !plan ? -ENOMEM : make_input(context, pool, frozen_layers, &units, &input);
    if (status == 0)
        status = context->view->spec->elastic.shadow
                     ? shadow_stages_layout(&input, plan, NULL, NULL, context->error)
                     : planner_run(&input, &plan->layout, NULL, NULL, context->error);
    if (status == -ENOMEM)
        error_set(context->error, status, "no memory to plan");
    if (status < 0) {
        plan_free(plan);
        return status;
    }
    snprintf(plan->job, sizeof(plan->job), "%s", context->view->spec->name);
    plan->layout.frozen_layers = frozen_layers;
    *ret_plan = plan;
    return 0;
}

int leader_predict(struct leader_context *context, const struct slot_pool *pool,
                   const struct plan_layout *layout, unsigned frozen_layers, double *ret_seconds)
{
    AUTO_FREE struct planner_unit *units = NULL;
    struct planner_input input;
    int status = make_input(context, pool, frozen_layers, &units, &input);
    return status < 0 ? status : planner_predict(&input, layout, ret_seconds);
}

size_t *leader_unit_bytes(struct leader_context *context, unsigned frozen_layers,
                          double *ret_link_bytes_per_second)
{
    AUTO_FREE struct planner_unit *units = NULL;
    struct planner_input input;
    if (make_input(context, NULL, frozen_layers, &units, &input) < 0)
        return NULL;
    size_t *unit_bytes = calloc(input.unit_count, sizeof(size_t));
    for (unsigned unit = 0; unit_bytes && unit < input.unit_count; unit++)
        unit_bytes[unit] = units[unit].parameter_bytes * (planner_unit_takes(&units[unit]) ? 3 : 1);
    *ret_link_bytes_per_second = input.link_bytes_per_second;
    return unit_bytes;
}

int leader_transfer(struct leader_context *context, struct plan *plan,
                    const struct state_moves_holder *holders, unsigned holder_count)
{
    double link_bytes_per_second;
    AUTO_FREE size_t *unit_bytes =
        leader_unit_bytes(context, plan->layout.frozen_layers, &link_bytes_per_second);
    if (!unit_bytes)
        return -ENOMEM;
    return state_moves_fill(plan, holders, holder_count, unit_bytes, context->error);
}

struct state_moves_holder leader_holder(const struct roster_member *member,
                                        const struct plan_layout *layout)
{
    struct state_moves_holder holder = {.slot = member->slot,
                                        .instance = member->report ? member->report->instance : 0,
                                        .avoid = !member->node};
    snprintf(holder.node, sizeof(holder.node), "%s", member->node_name);
    if (member->rank >= 0)
        memcpy(holder.address, layout->workers[member->rank].address, sizeof(holder.address));
    else if (member->node)
        snprintf(holder.address, sizeof(holder.address), "%.48s:%u", member->node->host,
                 member->node->link_port + member->slot);
    return holder;
}

bool leader_checkpoint_is_ahead(const struct leader_context *context, uint64_t step)
{
    const struct leader_view *view = context->view;
    bool passed = view->progress.generation > view->checkpoint.generation &&
                  view->progress.step < view->checkpoint.step;
    return view->checkpoint.step > step && !passed;
}

uint64_t leader_start_time_ns(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    return start_time_ns(&view->plan->layout, &view->spec->model, view->failure_timeout_ns);
}

/* Return whether a worker of the plan in force has reported that it computes wrongly: it may have
 * written outputs of frozen layers, which other nodes may have fetched. */
static bool somebody_computes_wrongly(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct worker_report *report = context->roster.members[i].report;
        if (report && report->phase == WORKER_BAD && report->cause != CAUSE_CRASHED &&
            report->generation == context->view->plan->generation)
            return true;
    }
    return false;
}

/* Copy the data that a plan hands on to its successor. */
static void inherit(const struct leader_context *context, struct plan *plan)
{
    const struct plan *before = context->view->plan;
    plan->follows = before ? before->generation : 0;
    plan->checkpoints.recorded_step = context->view->checkpoint.step;
    plan->change.busy_ns = before ? leader_operation_ns(context) : 0;
    if (before && plan->layout.prediction_factor == 0)
        plan->layout.prediction_factor = leader_prediction_factor(context);
    if (!leader_step_is_long(plan))
        plan->layout.copy_seconds = 0;
    if (before && !plan->change.planned)
        plan->trial = (struct plan_trial){.slower = before->trial.slower,
                                          .slower_frozen = before->trial.slower_frozen};
    if (before && plan->change.switch_seconds == 0)
        plan->change.switch_seconds = before->change.switch_seconds;
    if (plan->start.disputed || (before && somebody_computes_wrongly(context)))
        plan->start.last_dispute = plan->generation;
    else if (before)
        plan->start.last_dispute = before->start.last_dispute;
}

void leader_act(struct leader_context *context, enum leader_action action, struct plan *plan)
{
    if (plan->generation == 0)
        plan->generation = context->memory->generation_last + 1;
    inherit(context, plan);
    struct leader_compatibility kind = leader_compatibility(context);
    snprintf(plan->numerics, sizeof(plan->numerics), "%s",
             kind.numerics_identity ? kind.numerics_identity : "");
    plan->links.protocol = kind.links;
    context->memory->generation_last = MAX(context->memory->generation_last, plan->generation);
    context->decision->action = action;
    context->decision->plan = plan;
}

/* Say why @node gives the job no slot, or fewer than it has; "": it gives all. */
static void explain_node(const struct leader_context *context,
                         const struct leader_compatibility *kind, const struct member *node,
                         char *ret_why, size_t size)
{
    const char *refusal = roster_refused(&context->roster, node->name);
    unsigned bad = 0, waiting = 0; /* bad slots that need a person */
    for (unsigned i = 0; i < node->slot_count; i++) {
        bad += node->slots[i].bad;
        waiting += node->slots[i].bad && !node->slots[i].tried_again;
    }
    leader_compatibility_words(kind, node, ret_why, size);
    if (refusal)
        snprintf(ret_why, size, "node %s refuses: %.160s", node->name, refusal);
    else if (node->draining)
        snprintf(ret_why, size, "node %s is draining", node->name);
    else if (ret_why[0] == '\0' && waiting > 0)
        snprintf(ret_why, size,
                 "%u slot%s of node %s %s out of service until firnctl node resume %s", waiting,
                 waiting == 1 ? "" : "s", node->name, waiting == 1 ? "is" : "are", node->name);
    else if (ret_why[0] == '\0' && bad > 0)
        snprintf(ret_why, size,
                 "%u slot%s of node %s %s out of service for a while: firnctl node list", bad,
                 bad == 1 ? "" : "s", node->name, bad == 1 ? "is" : "are");
}

/* Say which jobs have slots that this job lacks, and how many: "job a has 2, job b has 1". */
static void explain_holders(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    unsigned said = 0;
    for (unsigned holder = 1; holder <= view->holder_count; holder++) {
        const char *job = view->holders[holder - 1];
        unsigned held = 0, leaving = 0;
        for (unsigned n = 0; n < view->node_count; n++)
            for (unsigned i = 0; i < view->nodes[n].slot_count; i++) {
                const struct member_slot *slot = &view->nodes[n].slots[i];
                held += slot->busy && slot->holder == holder;
                leaving += slot->busy && slot->holder == holder && slot->leaves;
            }
        if (held == 0 || said == HOLDERS_SHOWN)
            continue;
        leader_add(context, "%sjob %s %s %u", said++ == 0 ? "; " : ", ", job,
                   leaving == held ? "is leaving" : "has", held);
    }
    if (said > 0)
        leader_add(context, ": firnctl job scale, pause or cancel frees slots");
}

/* Say which jobs get the next free slots. */
static void explain_queue(struct leader_context *context)
{
    const struct slot_queue_place *queue = &context->view->queue;
    if (queue->kept_before == 0)
        return;
    leader_add(context, "; %u of the next free slots %s for job %s", queue->kept_before,
               queue->kept_before == 1 ? "is" : "are", queue->first);
    if (queue->before > 1)
        leader_add(context, " and %u other%s", queue->before - 1, plural(queue->before - 1));
    leader_add(context, ", submitted before");
}

void leader_explain_wait(struct leader_context *context, enum job_state state,
                         unsigned usable_count, const char *planner_text)
{
    const struct leader_view *view = context->view;
    struct leader_compatibility kind = leader_compatibility(context);
    char why[360] = "", words[240];
    size_t used = 0;
    for (unsigned n = 0; n < view->node_count && used < sizeof(why) - 264; n++) {
        explain_node(context, &kind, &view->nodes[n], words, sizeof(words));
        if (words[0] != '\0')
            used += (size_t)snprintf(why + used, sizeof(why) - used, "%s%s", used > 0 ? ", " : " (",
                                     words);
    }
    if (used > 0)
        snprintf(why + used, sizeof(why) - used, ")");
    if (planner_text)
        leader_say(context, state, "waits for slots: %.130s%s", planner_text, why);
    else
        leader_say(context, state, "waits for slots: wants at least %u, %u %s free%s",
                   leader_devices_min(view), usable_count, usable_count == 1 ? "is" : "are", why);
    explain_queue(context);
    explain_holders(context);
    leader_starting_say(context);
}
