#include "worker/state/canonical.h"

static unsigned role_count(const struct state *state, unsigned unit)
{
    return unit >= state_frozen_units(state) ? 3 : 1;
}

int canonical_visit(const struct state *state, unsigned first, unsigned count,
                    canonical_visitor visit, void *context)
{
    unsigned order = 0;

    for (unsigned unit = 0; unit < first + count; unit++) {
        const struct unit_layout *layout = &state->units[unit].layout;
        for (unsigned i = 0; i < layout->tensor_count; i++) {
            if (state_mirrored(state, &layout->tensors[i]))
                continue;
            for (unsigned role = 0; role < role_count(state, unit); role++, order++) {
                struct canonical_tensor tensor = {&layout->tensors[i], unit,
                                                  (enum manifest_role)role, order};
                int answer = unit >= first ? visit(context, &tensor) : 0;
                if (answer)
                    return answer;
            }
        }
    }
    return 0;
}

static int count_one(void *context, const struct canonical_tensor *tensor)
{
    (void)tensor;
    ++*(unsigned *)context;
    return 0;
}

unsigned canonical_count(const struct state *state)
{
    unsigned count = 0;

    canonical_visit(state, 0, state->unit_count, count_one, &count);
    return count;
}

float *canonical_memory(const struct state *state, const struct canonical_tensor *tensor)
{
    const struct state_unit *unit = &state->units[tensor->unit];
    float *arrays[] = {unit->parameters, unit->first_moment, unit->second_moment};

    return arrays[tensor->role] ? arrays[tensor->role] + tensor->tensor->offset : NULL;
}
