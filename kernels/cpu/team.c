#include "kernels/cpu/team.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* About 20 us: longer than the gap between two operations of a step, shorter than a time slice. */
#define SPINS_MAX 1000

struct member {
    struct team *team;
    unsigned index;
    pthread_t thread;
};

struct team {
    unsigned member_count, started_count;
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    atomic_uint round;   /* counts tasks; changes under the lock, read without it while spinning */
    atomic_uint working; /* members other than the caller that have not finished the round */
    bool stopping;
    team_task task;
    void *context;
    struct member members[];
};

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

static void wait_for_round(struct team *team, unsigned finished_round)
{
    for (unsigned spin = 0; spin < SPINS_MAX; spin++) {
        if (atomic_load_explicit(&team->round, memory_order_acquire) != finished_round)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->round, memory_order_relaxed) == finished_round)
        pthread_cond_wait(&team->begun, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void finish_round(struct team *team)
{
    if (atomic_fetch_sub_explicit(&team->working, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_lock(&team->lock);
    pthread_cond_signal(&team->ended);
    pthread_mutex_unlock(&team->lock);
}

static void *member_main(void *argument)
{
    struct member *self = argument;
    struct team *team = self->team;

    for (unsigned round = 0;; round++) {
        wait_for_round(team, round);
        if (team->stopping)
            return NULL;
        team->task(team->context, self->index, team->member_count);
        finish_round(team);
    }
}

static void begin_round(struct team *team)
{
    atomic_store_explicit(&team->working, team->started_count, memory_order_relaxed);
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add_explicit(&team->round, 1, memory_order_release);
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->lock);
}

static void wait_for_members(struct team *team)
{
    for (unsigned spin = 0; spin < SPINS_MAX; spin++) {
        if (atomic_load_explicit(&team->working, memory_order_acquire) == 0)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->working, memory_order_acquire) > 0)
        pthread_cond_wait(&team->ended, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void team_run(struct team *team, team_task task, void *context)
{
    if (team->member_count == 1) {
        task(context, 0, 1);
        return;
    }
    team->task = task;
    team->context = context;
    begin_round(team);
    task(context, 0, team->member_count);
    wait_for_members(team);
}

/* Start the members with all signals blocked: the main thread handles signals. */
static int start_members(struct team *team)
{
    sigset_t all, before;
    int result = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 1; i < team->member_count && result == 0; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){.team = team, .index = i};
        result = pthread_create(&member->thread, NULL, member_main, member);
        if (result == 0)
            team->started_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -result;
}

int team_new(unsigned member_count, struct team **ret_team, struct error *error)
{
    assert(member_count >= 1 && member_count <= TEAM_MEMBERS_MAX);
    struct team *team = calloc(1, sizeof(*team) + member_count * sizeof(team->members[0]));
    if (!team)
        return error_set(error, -ENOMEM, "no memory for a team of %u threads", member_count);
    team->member_count = member_count;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);

    int result = start_members(team);
    if (result < 0) {
        error_set(error, result, "starting thread %u of %u: %s", team->started_count + 2,
                  member_count, strerror(-result));
        team_free(team);
        return result;
    }
    *ret_team = team;
    return 0;
}

void team_free(struct team *team)
{
    if (!team)
        return;
    team->stopping = true;
    begin_round(team);
    for (unsigned i = 1; i <= team->started_count; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->ended);
    pthread_cond_destroy(&team->begun);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

unsigned team_size(const struct team *team)
{
    return team->member_count;
}
