/*
 * Take slots of this node out of service and bring them back. A slot whose workers crashed
 * repeatedly comes back after a pause (elastic/agent/slot_backoff.h); all slots come back when an
 * operator asks for it (`firnctl node resume`). The node's record has the reasons, for the leader
 * and for operators. Jobs' agents are told when a slot is in service again.
 *
 * Broken GPUs: daemon/node/inventory.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct daemon;
struct job;
struct slot_service;

/* Called for each job of the node when a slot is in service again. */
typedef void slot_service_mended(struct job *job, unsigned slot);

/** slot_service_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a loop
 * timer */
int slot_service_new(struct daemon *daemon, slot_service_mended *mended,
                     struct slot_service **ret_service) CHECK_RESULT;
void slot_service_free(struct slot_service *service);

/** slot_service_take_out() - take @slot out of service
 * @why: the reason
 * @crashed: its workers crashed, so the slot is retried after a pause; else only an operator
 * brings it back
 * Return: the pause; 0: until an operator acts */
uint64_t slot_service_take_out(struct slot_service *service, unsigned slot, const char *why,
                               bool crashed);

/** slot_service_watches() - return whether @slot is on probation after a pause */
bool slot_service_watches(const struct slot_service *service, unsigned slot);

/** slot_service_excuse() - bring all slots of this node back, because an operator has checked
 * the node. The caller publishes the record */
void slot_service_excuse(struct slot_service *service);

/** slot_service_sync() - excuse the slots if an operator has asked for it while the node does
 * not drain */
void slot_service_sync(struct slot_service *service);
