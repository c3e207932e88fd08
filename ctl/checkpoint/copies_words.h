/* What firnctl says about the copies of a checkpoint that were looked at. */
#pragma once

#include "checkpoint/read/verify_copies.h"

/**
 * copies_words() - the verdict on all copies as a result
 *
 * Return: 0: all are good; -EBADMSG: some are damaged; -EHOSTUNREACH: of those that could be read
 * none is; @error says how many and what is left of them.
 */
int copies_words(const struct copies_verdict *verdict, struct error *error) CHECK_RESULT;
