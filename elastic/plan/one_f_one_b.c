#include "elastic/plan/one_f_one_b.h"

/* Return the forwards before the first backward: enough to fill the later stages. */
static unsigned warm_up(const struct one_f_one_b_position *position)
{
    return MIN(position->stage_count - 1 - position->stage, position->micro_batch_count);
}

unsigned one_f_one_b_slots(const struct one_f_one_b_position *position)
{
    /* Two slots let a forward-only stage send one output while it computes the next. */
    if (!position->backward)
        return 2;
    return position->stage_count - position->stage;
}

unsigned one_f_one_b_operation_count(const struct one_f_one_b_position *position)
{
    return position->micro_batch_count * (position->backward ? 2 : 1);
}

struct one_f_one_b_operation one_f_one_b_operation(const struct one_f_one_b_position *position,
                                                   unsigned index)
{
    unsigned ahead = warm_up(position), count = position->micro_batch_count;
    struct one_f_one_b_operation operation = {.backward = false, .micro_batch = index};

    assert(index < one_f_one_b_operation_count(position));
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
    operation.slot = operation.micro_batch % one_f_one_b_slots(position);
    return operation;
}
