#include "elastic/plan/one_f_one_b.h"

/* Forwards before the first backward: enough to fill the stages behind this one. */
static unsigned warm_up(const struct schedule_position *position)
{
    return MIN(position->stage_count - 1 - position->stage, position->micro_batch_count);
}

unsigned schedule_slots(const struct schedule_position *position)
{
    /* Two slots let a forward-only stage send one output while it computes the next. */
    if (!position->backward)
        return 2;
    return position->stage_count - position->stage;
}

unsigned schedule_operation_count(const struct schedule_position *position)
{
    return position->micro_batch_count * (position->backward ? 2 : 1);
}

struct schedule_operation schedule_operation(const struct schedule_position *position,
                                             unsigned index)
{
    unsigned ahead = warm_up(position), count = position->micro_batch_count;
    struct schedule_operation operation = {.backward = false, .micro_batch = index};

    assert(index < schedule_operation_count(position));
    if (position->backward && index >= ahead) {
        unsigned steady = index - ahead; /* F, B, F, B, ... until the forwards run out */
        if (steady < 2 * (count - ahead)) {
            operation.backward = steady % 2 == 1;
            operation.micro_batch = operation.backward ? steady / 2 : ahead + steady / 2;
        } else {
            operation.backward = true;
            operation.micro_batch = index - count;
        }
    }
    operation.slot = operation.micro_batch % schedule_slots(position);
    return operation;
}
