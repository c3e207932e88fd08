#include "elastic/plan/versions.h"

#include "base/compiler.h"

bool versions_meet(unsigned control_oldest, unsigned control)
{
    return MAX(control_oldest, 1u) <= VERSIONS_CONTROL &&
           MAX(control, 1u) >= VERSIONS_CONTROL_OLDEST;
}
