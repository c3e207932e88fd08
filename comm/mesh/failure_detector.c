#include "comm/mesh/failure_detector.h"

#include "base/compiler.h"
#include "base/timeouts.h"

void failure_detector_init(struct failure_detector *watch, uint64_t timeout_ns, uint64_t now_ns)
{
    *watch = (struct failure_detector){
        .timeout_ns = timeout_ns, .polled_ns = now_ns, .heartbeat_ns = now_ns};
}

uint64_t failure_detector_poll(struct failure_detector *watch, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns > watch->polled_ns ? now_ns - watch->polled_ns : 0;
    watch->attention_ns += MIN(gap_ns, watch->timeout_ns / TIMEOUT_PARTS_ATTENTION);
    watch->polled_ns += gap_ns;
    return watch->attention_ns;
}

bool failure_detector_silent(const struct failure_detector *watch, uint64_t heard_attention_ns)
{
    return watch->attention_ns - heard_attention_ns > watch->timeout_ns;
}

bool failure_detector_beat(struct failure_detector *watch)
{
    if (watch->polled_ns < watch->heartbeat_ns)
        return false;
    watch->heartbeat_ns = watch->polled_ns + watch->timeout_ns / TIMEOUT_PARTS_HEARTBEAT;
    return true;
}

uint64_t failure_detector_poll_ns(const struct failure_detector *watch)
{
    return watch->timeout_ns / TIMEOUT_PARTS_POLL;
}
