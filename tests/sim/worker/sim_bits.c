#include "sim/worker/sim_bits.h"

#include <string.h>

#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_notices.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"

#define FLIPPED_PERCENT   12 /* of all jobs */
#define ALONE_PERCENT     60 /* of these histories: no other fault */
#define PIPELINE_PERCENT  50 /* of these: two stages, if there are slots */
#define FLIPS_MAX         3
#define FIRST_NS          (3 * NS_PER_SECOND)
#define GAP_NS            (9 * NS_PER_SECOND)
#define RETRY_NS          (NS_PER_SECOND / 3)
#define TRIES_MAX         20
#define EXCUSES           4 /* times that an operator excuses the slots out of service */
#define NOTICED_STEPS_MAX (SIM_UNITS + 2)

enum flip_kind { FLIP_GRADIENT, FLIP_PARAMETER, FLIP_MOMENT, FLIP_KINDS };

static const char *const kind_words[FLIP_KINDS] = {"the gradients", "a parameter", "a moment"};

enum flip_state {
    FLIP_TO_COME,
    FLIP_ARMED,  /* of gradients: strikes when its worker next holds a step */
    FLIP_STRUCK, /* some state, or a held step, is wrong */
    FLIP_OVER,
};

struct flip {
    struct sim *sim;
    enum flip_kind kind;
    enum flip_state state;
    const struct sim_worker *worker; /* valid until the end, even after its death */
    unsigned unit, tries;
    uint64_t step;        /* FLIP_GRADIENT: the flipped step; else the boundary before */
    uint64_t from, until; /* generations that have it; UINT64_MAX: not over */
};

struct sim_bits {
    bool drawn, alone;
    unsigned count;
    struct flip flips[FLIPS_MAX];
};

/* Return whether the run has a planted bug of another rule, whose histories must not change. */
static bool is_other_bug(const struct sim *sim)
{
    return sim->bug != BUG_NONE && sim->bug != BUG_UNSEEN_STATE &&
           sim->bug != BUG_UNSEEN_GRADIENTS && sim->bug != BUG_KEPT_DISPUTED &&
           sim->bug != BUG_WRONG_VERDICT;
}

static void make_quiet(struct sim *sim)
{
    sim->spec.elastic.freeze.policy = JOB_FREEZE_NONE;
    sim->spec.elastic.freeze.thaw = 0;
    sim->spec.elastic.shadow = false;
    sim->spec.elastic.evict_stragglers.factor = 0;
    sim->spec.train.steps = SIM_STEPS_LONG;
    sim->stages = sim_chance(sim, STREAM_BITS, PIPELINE_PERCENT) ? 2 : 0;
}

void sim_bits_draw(struct sim *sim)
{
    sim->bits = sim_allocate(1, sizeof(*sim->bits));
    if (is_other_bug(sim) || sim->one_fault || sim_cuts_lone(sim) || sim_stragglers_alone(sim) ||
        sim_notices_alone(sim) || !sim_chance(sim, STREAM_BITS, FLIPPED_PERCENT))
        return;
    sim->bits->drawn = true;
    sim->bits->alone = sim_chance(sim, STREAM_BITS, ALONE_PERCENT);
    if (sim->bits->alone)
        make_quiet(sim);
}

bool sim_bits_alone(const struct sim *sim)
{
    return sim->bits->alone;
}

void sim_bits_free(struct sim *sim)
{
    free(sim->bits);
}

/* ---- inject bit flips ---- */

static unsigned keepers_of(const struct plan *plan, unsigned unit)
{
    unsigned keepers = 0;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        keepers += plan_layout_keeps(&plan->layout, rank, unit);
    return keepers;
}

/* Return whether the worker trains, and another replica has the unit, too. */
static bool can_be_hit(const struct sim_worker *worker, unsigned unit)
{
    return worker->alive && worker->engine && !worker->first_commit &&
           worker->phase == WORKER_RUNNING && worker->keeps[unit] &&
           worker->generation == worker->sim->check->committing_generation &&
           worker->generation == worker->sim->check->newest.generation &&
           worker->state.units[unit].held && keepers_of(worker->plan, unit) > 1;
}

static struct sim_worker *choose(struct sim *sim, unsigned unit)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        count += can_be_hit(sim->workers[i], unit);
    uint64_t chosen = count > 0 ? sim_random(sim, STREAM_BITS, count) : 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (can_be_hit(sim->workers[i], unit) && chosen-- == 0)
            return sim->workers[i];
    return NULL;
}

static bool is_open(const struct flip *flip)
{
    return flip->state == FLIP_ARMED || flip->state == FLIP_STRUCK;
}

/* Only one flip may be open at a time: a dispute must be attributable to its flip. */
static bool another_is_open(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->bits->count; i++)
        if (is_open(&sim->bits->flips[i]))
            return true;
    return false;
}

static void strike(struct flip *flip, struct sim_worker *worker)
{
    flip->state = FLIP_STRUCK;
    flip->worker = worker;
    flip->from = worker->generation;
    flip->step = worker->state.applied_step + (flip->kind == FLIP_GRADIENT);
    worker->sim->faults->disturbed_ns = worker->sim->now_ns;
    sim_trace(worker->sim, "FLIP  of %s of unit %u on %s in generation %llu, step %llu",
              kind_words[flip->kind], flip->unit, sim_worker_name(worker),
              (unsigned long long)flip->from, (unsigned long long)flip->step);
}

static void come(void *context)
{
    struct flip *flip = context;
    struct sim *sim = flip->sim;
    flip->unit = (unsigned)sim_random(sim, STREAM_BITS, SIM_UNITS);
    struct sim_worker *worker = another_is_open(sim) ? NULL : choose(sim, flip->unit);
    if (!worker) {
        flip->state = ++flip->tries < TRIES_MAX ? FLIP_TO_COME : FLIP_OVER;
        if (flip->state == FLIP_TO_COME)
            sim_post(sim, sim->now_ns + RETRY_NS, NULL, come, flip);
        return;
    }
    uint64_t bit = (uint64_t)1 << sim_random(sim, STREAM_BITS, 64);
    struct sim_unit *unit = &worker->state.units[flip->unit];
    flip->worker = worker;
    if (flip->kind == FLIP_GRADIENT) {
        flip->state = FLIP_ARMED;
        flip->from = worker->generation;
        return;
    }
    *(flip->kind == FLIP_PARAMETER ? &unit->hash : &unit->moments) ^= bit;
    strike(flip, worker);
}

bool sim_bits_flips_gradient(struct sim_worker *worker, unsigned unit)
{
    const struct sim_bits *bits = worker->sim->bits;
    for (unsigned i = 0; bits && i < bits->count; i++) {
        struct flip *flip = &worker->sim->bits->flips[i];
        if (flip->state != FLIP_ARMED || flip->worker != worker || flip->unit != unit)
            continue;
        strike(flip, worker);
        return true;
    }
    return false;
}

/* An operator finds nothing wrong with the slots. With long steps or a long last evaluation, the
 * replicas are found to differ late: the operator keeps looking. */
static void excuse(void *context)
{
    struct sim *sim = context;
    uint64_t beyond_ns = sim_scale_beyond_ns(sim) + sim_scale_evaluation_max_ns(sim);
    for (unsigned i = 0; i < sim->node_count; i++)
        sim_faults_excuse(sim, &sim->nodes[i]);
    if (beyond_ns > 0 && sim->now_ns >= sim->faults->over_ns + (EXCUSES - 1) * GAP_NS)
        sim_post(sim, sim->now_ns + MAX(GAP_NS, beyond_ns / 4), NULL, excuse, sim);
}

void sim_bits_begin(struct sim *sim)
{
    struct sim_bits *bits = sim->bits;
    uint64_t at_ns = FIRST_NS;
    if (!bits->drawn)
        return;
    bits->count = 1 + (unsigned)sim_random(sim, STREAM_BITS, FLIPS_MAX);
    for (unsigned i = 0; i < bits->count; i++) {
        at_ns += sim_random(sim, STREAM_BITS, GAP_NS);
        bits->flips[i] =
            (struct flip){.sim = sim,
                          .kind = (enum flip_kind)sim_random(sim, STREAM_BITS, FLIP_KINDS),
                          .until = UINT64_MAX};
        sim_post(sim, at_ns, NULL, come, &bits->flips[i]);
    }
    sim->faults->over_ns = MAX(sim->faults->over_ns, at_ns + GAP_NS);
    for (unsigned i = 0; i < EXCUSES; i++)
        sim_post(sim, sim->faults->over_ns + i * GAP_NS, NULL, excuse, sim);
}

/* ---- check the reaction ---- */

/* Find a flip that has struck state, or (not @of_state) a held step. */
static const struct flip *find_struck(const struct sim *sim, uint64_t generation, bool of_state)
{
    for (unsigned i = 0; sim->bits && i < sim->bits->count; i++) {
        const struct flip *flip = &sim->bits->flips[i];
        bool has_it = (flip->state == FLIP_STRUCK || flip->state == FLIP_OVER) && flip->worker &&
                      flip->from <= generation && generation < flip->until;
        if (has_it && of_state == (flip->kind != FLIP_GRADIENT))
            return flip;
    }
    return NULL;
}

bool sim_bits_may_be_wrong(const struct sim *sim, uint64_t generation)
{
    return find_struck(sim, generation, true);
}

bool sim_bits_excuse(const struct sim *sim)
{
    for (unsigned i = 0; sim->bits && i < sim->bits->count; i++)
        if (sim->bits->flips[i].state == FLIP_STRUCK)
            return true;
    return false;
}

/* Return whether @plan continues with the wrong bit. Without other faults only a dispute causes a
 * plan that lets the step stand. */
static bool goes_on_with(const struct sim *sim, const struct flip *flip, const struct plan *plan)
{
    bool stands = plan->start.has_commit && plan->start.commit.step == flip->step;
    if (plan->start.source != PLAN_SOURCE_MEMORY)
        return false;
    if (flip->kind == FLIP_GRADIENT)
        return stands && !sim->bits->alone; /* alone: the dispute has found the right values */
    return true;
}

static void end_by(struct sim *sim, struct flip *flip, const struct plan *plan)
{
    if (flip->state != FLIP_STRUCK || plan->layout.worker_count == 0)
        return;
    if (!goes_on_with(sim, flip, plan)) {
        flip->state = FLIP_OVER;
        flip->until = plan->generation;
        return;
    }
    if (sim->bits->alone && !plan->change.planned)
        sim_fail(sim,
                 "generation %llu goes on from step %llu of memory, where %s has %s of unit %u "
                 "wrong",
                 (unsigned long long)plan->generation, (unsigned long long)plan->start.resume_step,
                 sim_worker_name(flip->worker), kind_words[flip->kind], flip->unit);
    sim_trace(sim, "UNSEEN: nobody can find the wrong bit any more");
    sim->unjudged = true;
}

void sim_bits_planned(struct sim *sim, const struct plan *plan)
{
    for (unsigned i = 0; sim->bits && i < sim->bits->count; i++) {
        struct flip *flip = &sim->bits->flips[i];
        if (flip->state == FLIP_ARMED && plan->layout.worker_count > 0)
            flip->state = FLIP_OVER; /* its step can no longer be known */
        end_by(sim, flip, plan);
    }
}

void sim_check_dispute(struct sim *sim, const struct sim_worker *worker, enum dispute_about about)
{
    if (!find_struck(sim, worker->generation, about == DISPUTE_STATE))
        sim_fail(sim,
                 "%s of generation %llu finds that replicas hold different %s, but no bit was "
                 "flipped",
                 sim_worker_name(worker), (unsigned long long)worker->generation,
                 about == DISPUTE_STATE ? "parameters" : "gradients");
}

void sim_check_verdict(struct sim *sim, const struct sim_worker *worker, bool settled, bool goes)
{
    bool wrong = false;
    for (unsigned i = 0; sim->bits && i < sim->bits->count; i++)
        wrong = wrong ||
                (sim->bits->flips[i].state == FLIP_STRUCK && sim->bits->flips[i].worker == worker);
    if (!sim->bits || !sim->bits->alone || !settled || goes == wrong)
        return;
    sim_fail(sim, "%s %s, which %s by the verdict of the majority", sim_worker_name(worker),
             wrong ? "has lost a bit" : "has lost no bit", goes ? "goes" : "stays");
}

void sim_check_noticed(struct sim *sim, const struct plan *plan, uint64_t step)
{
    const struct flip *flip = find_struck(sim, plan->generation, true);
    if (flip && sim->bits->alone && step > flip->step + NOTICED_STEPS_MAX)
        sim_fail(sim,
                 "generation %llu commits step %llu, and nobody has noticed that %s has %s of unit "
                 "%u wrong since step %llu",
                 (unsigned long long)plan->generation, (unsigned long long)step,
                 sim_worker_name(flip->worker), kind_words[flip->kind], flip->unit,
                 (unsigned long long)flip->step);
}
