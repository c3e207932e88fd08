#include "elastic/plan/protocol.h"

#include "base/compiler.h"

bool protocol_meets(unsigned control_oldest, unsigned control)
{
    return MAX(control_oldest, 1u) <= PROTOCOL_CONTROL &&
           MAX(control, 1u) >= PROTOCOL_CONTROL_OLDEST;
}
