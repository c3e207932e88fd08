/* Messages of firnctl about the verified copies of a checkpoint. */
#pragma once

#include "checkpoint/read/verify_copies.h"

/**
 * copies_words() - convert the check of all copies to a result
 *
 * Return: 0: all are good; -EBADMSG: some are damaged; -EHOSTUNREACH: some could not be read and
 * none of the others is damaged; @error gives the counts and the remaining copies.
 */
int copies_words(const struct copies_check *check, struct error *error) CHECK_RESULT;
