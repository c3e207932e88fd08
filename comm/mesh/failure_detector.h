/*
 * Distinguish a silent peer from a stall of this process. A pure clock for failure detection.
 *
 * Silence is measured in attention time, which runs with the monotonic clock while the I/O thread
 * polls punctually, but advances by at most TIMEOUT_PARTS_ATTENTION between two polls. When this
 * process was stopped or starved for longer, the surplus does not count as silence: a peer is given
 * up only after at least four polls of its link, each of which read the available bytes.
 *
 * With heartbeats every quarter, detection takes between 1 and 1.25 timeouts on a punctual thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct failure_detector {
    uint64_t timeout_ns;
    uint64_t polled_ns;    /* monotonic */
    uint64_t attention_ns; /* clock of a peer's `heard_ns` */
    uint64_t heartbeat_ns; /* monotonic: when the next one is due */
};

void failure_detector_init(struct failure_detector *watch, uint64_t timeout_ns, uint64_t now_ns);

/** failure_detector_poll() - record a poll of the links. Return: attention time, to stamp data
 * heard now
 */
uint64_t failure_detector_poll(struct failure_detector *watch, uint64_t now_ns);

bool failure_detector_silent(const struct failure_detector *watch, uint64_t heard_attention_ns);

/** failure_detector_beat() - return whether heartbeats were due at the last poll; if so, schedule
 * the next ones */
bool failure_detector_beat(struct failure_detector *watch);

/** failure_detector_poll_ns() - return the longest time that the thread may sleep between polls */
uint64_t failure_detector_poll_ns(const struct failure_detector *watch);
