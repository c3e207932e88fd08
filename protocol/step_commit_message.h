/*
 * The two messages of the commit tree: a part of a step goes up, the complete step comes down. Each
 * is a count of words, the words in the order of the fields below, and the step record.
 */
#pragma once

#include "base/bytes.h"
#include "protocol/step_commit.h"

/** step_commit_pack_part() - append the message to @message. 0; -ENOMEM */
int step_commit_pack_part(const struct step_commit_part *part, const struct plan_layout *layout,
                          struct bytes *message) CHECK_RESULT;
/** step_commit_unpack_part() - read a message. 0; -EBADMSG: malformed, or names a rank or unit that
 * @layout does not have */
int step_commit_unpack_part(const void *data, size_t size_bytes, const struct plan_layout *layout,
                            struct step_commit_part *ret_part) CHECK_RESULT;

/**
 * step_commit_pack_down(), step_commit_unpack_down() - the message to all ranks
 * @closing: without the slowest of each stage
 *
 * The readiness and the times stay at the root. Errors as above.
 */
int step_commit_pack_down(const struct step_commit_down *down, const struct plan_layout *layout,
                          bool closing, struct bytes *message) CHECK_RESULT;
int step_commit_unpack_down(const void *data, size_t size_bytes, const struct plan_layout *layout,
                            bool closing, struct step_commit_down *ret_down) CHECK_RESULT;
