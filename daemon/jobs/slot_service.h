/*
 * Which slots of this node are out of service, and how they come back: those whose workers died
 * again and again by themselves, after a pause (elastic/agent/slot_backoff.h); all of them when an
 * operator says so (`firnctl node resume`). The reasons stand in the node's record, for the leader
 * and for people; jobs' agents are told when a slot may have workers again.
 *
 * GPUs that are broken: daemon/node/inventory.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct daemon;
struct slot_service;

/** slot_service_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer */
int slot_service_new(struct daemon *daemon, struct slot_service **ret_service) CHECK_RESULT;
void slot_service_free(struct slot_service *service);

/** slot_service_take_out() - for the reason @why; @crashed: its workers died, so it is tried again
 * after a while, else an operator is waited for. Return: for how long; 0: until somebody comes */
uint64_t slot_service_take_out(struct slot_service *service, unsigned slot, const char *why,
                               bool crashed);

/** slot_service_watches() - @slot is back on probation */
bool slot_service_watches(const struct slot_service *service, unsigned slot);

/** slot_service_excuse() - an operator has looked at this node: all of its slots are good. The
 * caller publishes the record */
void slot_service_excuse(struct slot_service *service);

/** slot_service_sync() - has an operator said so, where nothing drains? */
void slot_service_sync(struct slot_service *service);
