#include "worker/state/state_digest.h"

#include <errno.h>
#include <string.h>

#include "elastic/job/job_spec.h"

#define TENSORS_OF_UNIT 3u /* parameters and two moments */

struct state_digest {
    const struct state *state;
    struct kernel_flat_tensor *tensors; /* unit_count * TENSORS_OF_UNIT; the digests too */
    uint64_t *made;
    struct unit_digests digests;
    uint64_t all_step; /* boundary at which the digests cover all units; UINT64_MAX: none */
};

int state_digest_new(const struct state *state, struct state_digest **ret_check)
{
    struct state_digest *check = calloc(1, sizeof(*check));
    size_t tensors_max = (size_t)state->unit_count * TENSORS_OF_UNIT;

    if (!check)
        return -ENOMEM;
    check->state = state;
    check->all_step = UINT64_MAX;
    check->tensors = calloc(tensors_max, sizeof(*check->tensors));
    check->made = calloc(tensors_max, sizeof(*check->made));
    if (!check->tensors || !check->made) {
        state_digest_free(check);
        return -ENOMEM;
    }
    *ret_check = check;
    return 0;
}

void state_digest_free(struct state_digest *check)
{
    if (!check)
        return;
    free(check->tensors);
    free(check->made);
    free(check);
}

static bool is_compared(const struct state_digest *check, const struct plan_layout *layout,
                        unsigned rank, unsigned unit, bool all)
{
    const struct state *state = check->state;
    bool in_turn = all || unit == state->applied_step % state->unit_count;

    return in_turn && plan_layout_keeps(layout, rank, unit) &&
           !state->spec->elastic.mixed_devices &&
           (layout->replica_count > 1 || layout->shadow_count > 0);
}

/* A frozen unit has no moments. */
static size_t list_unit(const struct state_unit *unit, struct kernel_flat_tensor *tensors)
{
    const float *values[TENSORS_OF_UNIT] = {unit->parameters, unit->first_moment,
                                            unit->second_moment};

    for (unsigned i = 0; i < TENSORS_OF_UNIT; i++)
        tensors[i] = (struct kernel_flat_tensor){values[i], values[i] ? unit->layout.count : 0};
    return TENSORS_OF_UNIT;
}

/* An odd factor is invertible: a changed digest of one tensor changes the unit's digest. */
static uint64_t combine(const uint64_t *made)
{
    uint64_t digest = 0;

    for (unsigned i = 0; i < TENSORS_OF_UNIT; i++)
        digest = digest * 0x9e3779b97f4a7c15u + made[i];
    return digest;
}

void state_digest_run(struct state_digest *check, const struct plan_layout *layout, unsigned rank,
                      bool all)
{
    const struct state *state = check->state;
    size_t count = 0;

    memset(&check->digests, 0, sizeof(check->digests));
    check->all_step = all ? state->applied_step : UINT64_MAX;
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        check->digests.known[unit] = is_compared(check, layout, rank, unit, all);
        if (check->digests.known[unit])
            count += list_unit(&state->units[unit], check->tensors + count);
    }
    if (count == 0)
        return;
    state->kernel->digests(state->device, check->tensors, count, check->made);
    count = 0;
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        if (!check->digests.known[unit])
            continue;
        check->digests.values[unit] = combine(check->made + count);
        count += TENSORS_OF_UNIT;
    }
}

const struct unit_digests *state_digest_all(struct state_digest *check,
                                            const struct plan_layout *layout, unsigned rank)
{
    if (check->all_step != check->state->applied_step)
        state_digest_run(check, layout, rank, true);
    return &check->digests;
}

const struct unit_digests *state_digest_of(const struct state_digest *check)
{
    return &check->digests;
}
