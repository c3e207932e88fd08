/*
 * Is a peer silent, or were we not listening? A pure clock for failure detection.
 *
 * Silence is measured in attention time, which runs with the monotonic clock while the I/O thread
 * polls punctually, but advances by at most a quarter of the time-out between two polls. When this
 * process was stopped or starved for longer, the surplus is nobody's silence: a peer is given up
 * only after at least four looks at its link, each of which read what was there.
 *
 * With heartbeats every quarter, detection takes between 1 and 1.25 time-outs on a punctual thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct failure_detector {
    uint64_t timeout_ns;
    uint64_t polled_ns;    /* monotonic */
    uint64_t attention_ns; /* what a peer's `heard` is taken from */
    uint64_t heartbeat_ns; /* monotonic: when the next one is due */
};

void failure_detector_init(struct failure_detector *watch, uint64_t timeout_ns, uint64_t now_ns);

/** failure_detector_poll() - the thread looks at its links now; Return: attention time, for what is
 * heard now
 */
uint64_t failure_detector_poll(struct failure_detector *watch, uint64_t now_ns);

bool failure_detector_silent(const struct failure_detector *watch, uint64_t heard_attention_ns);

/** failure_detector_beat() - whether heartbeats are due at the last poll; then the next ones are
 * scheduled */
bool failure_detector_beat(struct failure_detector *watch);

/** failure_detector_poll_ns() - the longest that the thread may sleep between polls */
uint64_t failure_detector_poll_ns(const struct failure_detector *watch);
