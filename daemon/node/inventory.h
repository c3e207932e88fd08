/*
 * Provide the slots of this node, from the configuration and the GPUs found, and monitor the health
 * of the GPUs while firnd runs.
 *
 * `device: auto` (the default) offers one slot for each GPU if firn-worker supports it, and CPU
 * slots otherwise; the log has the choice and the reason. `cpu` never queries GPUs, `cuda` refuses
 * to start without them.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

struct daemon;
struct inventory;

/**
 * inventory_open() - fill @daemon's own record with slots, and monitor them from now on
 *
 * Return: 0; with `device: cuda` also -ENODEV, -ENOENT, -ENOTSUP, -EIO; errno of a timer. @error
 * names the remedy.
 */
int inventory_open(struct daemon *daemon, struct inventory **ret_inventory,
                   struct error *error) CHECK_RESULT;

/** inventory_device() - return the kind of the slots: "cuda" or "cpu" */
const char *inventory_device(const struct inventory *inventory);

/** inventory_describe() - fill the daemon's own record with the numerics identity and the rates of
 * the slots, as far as they can be found. The first call for a kind of GPU takes seconds. Rates of
 * CPU slots are measured in the background, and published later */
void inventory_describe(struct inventory *inventory);

/** inventory_excuse() - put all slots back into service until the next fault, because an
 * operator has checked the node. Slots with an unknown numerics identity stay out: two of them in
 * one job might differ. The caller publishes the record. NULL allowed */
void inventory_excuse(struct inventory *inventory);

/** inventory_excuse_slot() - put @slot back into service, unless its GPU is broken or its
 * numerics identity is unknown. The caller publishes the record. NULL allowed */
void inventory_excuse_slot(struct inventory *inventory, unsigned slot);

/** inventory_close() - stop monitoring and free; NULL allowed */
void inventory_close(struct inventory *inventory);
