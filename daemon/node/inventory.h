/*
 * What this node offers: its slots, from the configuration and from the GPUs that are here, and the
 * health of the latter for as long as firnd runs.
 *
 * `device: auto` (the default) offers one slot for each GPU when firn-worker can drive it, and CPU
 * slots otherwise; it says which, and why. `cpu` never asks for GPUs, `cuda`
 * refuses to start without them.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct daemon;
struct inventory;

/**
 * inventory_open() - fill @daemon's own record with slots, and look after them from now on
 *
 * Return: 0; with `device: cuda` also -ENODEV, -ENOENT, -ENOTSUP, -EIO; errno of a timer. @error
 * says what to do.
 */
int inventory_open(struct daemon *daemon, struct inventory **ret_inventory,
                   struct error *error) CHECK_RESULT;

/** inventory_device() - what the slots are: "cuda" or "cpu" */
const char *inventory_device(const struct inventory *inventory);

/** inventory_describe() - fill the daemon's own record with what the slots compute with and how
 * fast they are, as far as can be found out. The first time on a kind of GPU that takes seconds;
 * the rates of CPU slots are measured beside what follows, and published when they are known */
void inventory_describe(struct inventory *inventory);

/** inventory_excuse() - an operator has looked at this node: its slots are good until the next
 * fault, but for those of which nobody knows what they compute with: two of them might share a job
 * and differ. The caller publishes the record. NULL allowed */
void inventory_excuse(struct inventory *inventory);

/** inventory_excuse_slot() - what took @slot out of service is over; not where its GPU is broken,
 * or nobody knows what it computes with. The caller publishes the record. NULL allowed */
void inventory_excuse_slot(struct inventory *inventory, unsigned slot);

/** inventory_close() - NULL allowed */
void inventory_close(struct inventory *inventory);
