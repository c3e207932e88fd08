/*
 * The workers of a plan as one text.
 *
 * Every node of a job reads the whole plan, so its size counts by the square of the nodes; and
 * nearly all of it are names and addresses that begin and end alike. A worker takes four words with
 * a blank between them, and a comma separates two workers:
 *
 *   aan0001 0 aa10.0.0.1:7600 1f,ea2 0 hf2 20
 *
 *   node, link address   two letters say how many characters (a: none, b: 1, ... z: 25) at the
 *                        beginning and at the end are those of the worker before; what follows
 *                        stands between these
 *   slot                 decimal
 *   instance             hexadecimal without leading zeros
 *
 * A thousand workers are 11 KB to 30, by their instances, instead of 105, and are read in one pass
 * without a tree.
 */
#pragma once

#include "base/bytes.h"
#include "elastic/plan/plan.h"

/** plan_workers_pack() - append the text, without a zero. Return: 0; -ENOMEM; -EINVAL (an address
 * has a blank or a comma). The buffer is undefined after a failure. */
int plan_workers_pack(const struct plan_worker *workers, unsigned count,
                      struct bytes *text) CHECK_RESULT;

/**
 * plan_workers_unpack() - @text of @length bytes, NULL where there are none
 * @ret_workers: malloc'ed, never NULL after a success
 *
 * Return: 0; -EINVAL (malformed, more than PLAN_RANKS_MAX, words that are too long: @error says
 * which worker); -ENOMEM. What the words mean together is plan_check()'s matter.
 */
int plan_workers_unpack(const char *text, size_t length, struct plan_worker **ret_workers,
                        unsigned *ret_count, struct error *error) CHECK_RESULT;
