#include "checkpoint/object/object_retry.h"

#include <errno.h>
#include <stddef.h>

#include "base/compiler.h"

bool object_may_pass(int status)
{
    return status == -EAGAIN || status == -EBADMSG;
}

uint64_t object_wait_ns(unsigned tries)
{
    return MIN(OBJECT_WAIT_MIN_NS << (MIN(tries, OBJECT_TRIES_MAX + 0u) - 1), OBJECT_WAIT_MAX_NS);
}

int object_pause(const struct object_watch *watch, uint64_t wait_ns, const char *why)
{
    if (watch->trouble)
        watch->trouble(watch->context, why);
    return watch->pause ? watch->pause(watch->context, wait_ns) : 0;
}
