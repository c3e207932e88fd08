/*
 * Errands (daemon/core/errand.h) without threads: at once, or in the time that a slow file server
 * takes (sim_scale.h). The work is done at the start or at the end of that time. An abandoned
 * errand is never done.
 */
#include "daemon/core/errand.h"

#include <stdlib.h>

#include "membership/transport/timer.h"
#include "sim/sim_scale.h"

struct errand {
    const struct loop *loop;
    void (*ended)(void *user);
    void *user;
    struct timer end;
    struct errand_work work;
    void *load; /* NULL: none */
    bool runs, is_done;
    uint64_t began_ns, ended_ns;
};

static uint64_t now_ns(const struct errand *errand)
{
    return errand->loop->now_ns(errand->loop->context);
}

static void work_now(struct errand *errand)
{
    if (!errand->is_done)
        errand->work.run(errand->load);
    errand->is_done = true;
}

static void end_now(struct errand *errand)
{
    work_now(errand);
    errand->runs = false;
    errand->ended_ns = now_ns(errand);
}

static void on_end(void *context)
{
    struct errand *errand = context;
    end_now(errand);
    errand->ended(errand->user);
}

struct errand *errand_new(const struct loop *loop, void (*ended)(void *user), void *user)
{
    struct errand *errand = sim_allocate(1, sizeof(*errand));
    *errand = (struct errand){.loop = loop, .ended = ended, .user = user};
    if (!timer_init(&errand->end, loop, on_end, errand))
        return errand;
    free(errand);
    return NULL;
}

void errand_free(struct errand *errand)
{
    if (!errand)
        return;
    errand_forget(errand);
    timer_done(&errand->end);
    free(errand);
}

int errand_start(struct errand *errand, const struct errand_work *work, void *load)
{
    bool early;
    uint64_t takes_ns = sim_scale_errand_ns(sim_now, &early);
    errand_forget(errand);
    errand->work = *work;
    errand->load = load;
    errand->is_done = false;
    errand->runs = true;
    errand->began_ns = now_ns(errand);
    if (early)
        work_now(errand);
    if (takes_ns)
        timer_set_in(&errand->end, takes_ns);
    else
        end_now(errand);
    return 0;
}

bool errand_runs(const struct errand *errand)
{
    return errand->runs;
}

uint64_t errand_age_ns(const struct errand *errand)
{
    return now_ns(errand) - (errand->runs ? errand->began_ns : errand->ended_ns);
}

void *errand_result(const struct errand *errand)
{
    return errand->runs ? NULL : errand->load;
}

void *errand_take(struct errand *errand)
{
    void *load = errand_result(errand);
    if (load)
        errand->load = NULL;
    return load;
}

void errand_forget(struct errand *errand)
{
    timer_clear(&errand->end);
    if (errand->load)
        errand->work.drop(errand->load);
    errand->load = NULL;
    errand->runs = false;
}
