/*
 * The workers of a plan as one text.
 *
 * Every node of a job reads the whole plan, so the total traffic grows with the square of the
 * nodes. Nearly all of it is names and addresses with common prefixes and suffixes. A worker is
 * four words separated by blanks, and a comma separates two workers:
 *
 *   aan0001 0 aa10.0.0.1:7600 1f,ea2 0 hf2 20
 *
 *   node, link address   two letters say how many characters (a: none, b: 1, ... z: 25) at the
 *                        beginning and at the end equal those of the previous worker; the rest
 *                        stands between these
 *   slot                 decimal
 *   instance             hexadecimal without leading zeros
 *
 * A thousand workers take 11 to 30 KB, depending on their instances, instead of 105 KB, and are
 * read in one pass without a tree.
 */
#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "elastic/plan/plan_layout.h"

/** plan_workers_pack() - append the text, without a zero. Return: 0; -ENOMEM; -EINVAL (an address
 * has a blank or a comma). The buffer is undefined after a failure. */
int plan_workers_pack(const struct plan_worker *workers, unsigned count,
                      struct bytes *text) CHECK_RESULT;

/**
 * plan_workers_unpack() - decode @text of @length bytes
 * @text: NULL when there are no workers
 * @ret_workers: malloc'ed, never NULL after a success
 *
 * Return: 0; -EINVAL (malformed, more than PLAN_RANKS_MAX, words that are too long; @error names
 * the worker); -ENOMEM. plan_check() checks the workers against each other.
 */
int plan_workers_unpack(const char *text, size_t length, struct plan_worker **ret_workers,
                        unsigned *ret_count, struct error *error) CHECK_RESULT;
