/*
 * The copies that this rank keeps of another replica's sums, of one step, and the buffers of copies
 * that travel (worker/step/sum_copies.h). They outlive an engine, within its step: a generation
 * that begins there can go on with them.
 *
 * Memory: host memory beside the arena. A buffer that is not in use is kept for the next copy of
 * the same unit, because fresh memory is slow at first touch.
 */
#pragma once

#include "protocol/step_sums.h"
#include "worker/state/state.h"

struct copied_sums;

/** copied_sums_new() - keep nothing yet. @state is borrowed. -ENOMEM */
int copied_sums_new(const struct state *state, struct copied_sums **ret_copies) CHECK_RESULT;
void copied_sums_free(struct copied_sums *copies); /* NULL allowed */

/** copied_sums_begin() - forget the copies of all steps but the next one */
void copied_sums_begin(struct copied_sums *copies);

/** copied_sums_drop_others() - drop the copies that are not of @replica's sums under @division
 * (sum_copies_are_of_use()) */
void copied_sums_drop_others(struct copied_sums *copies, const struct step_division *division,
                             unsigned replica);
/** copied_sums_count() - return the number of copies */
unsigned copied_sums_count(const struct copied_sums *copies);

/** copied_sums_take_buffer() - return a buffer for a sum of @unit; the caller owns it. NULL: no
 * memory */
float *copied_sums_take_buffer(struct copied_sums *copies, unsigned unit);
/** copied_sums_return_buffer() - take it back */
void copied_sums_return_buffer(struct copied_sums *copies, unsigned unit, float *buffer);

/** copied_sums_keep() - keep the sum in @buffer, which is taken, in place of those of its lanes:
 * its owner sends nothing that has less. -ENOMEM: the buffer is taken back */
int copied_sums_keep(struct copied_sums *copies, const struct step_sum *sum,
                     float *buffer) CHECK_RESULT;
/** copied_sums_keep_losses() - keep the losses of @sums beside those that are kept; it may have
 * none. -ENOMEM */
int copied_sums_keep_losses(struct copied_sums *copies, const struct step_sums *sums) CHECK_RESULT;

/** copied_sums_list() - add the copies of the units from @first_unit to @end_unit to @sums, as
 * offered by @rank, this one, and the losses where @losses. Nothing for NULL and for copies of
 * another step. -ENOMEM */
int copied_sums_list(const struct copied_sums *copies, unsigned first_unit, unsigned end_unit,
                     unsigned rank, bool losses, struct step_sums *sums) CHECK_RESULT;
/** copied_sums_data() - return the data of a listed sum, borrowed */
const float *copied_sums_data(const struct copied_sums *copies, const struct step_sum *sum);
