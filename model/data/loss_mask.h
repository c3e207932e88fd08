/*
 * The tokens of a row that count in the loss: one byte per token (1: it counts, 0: it does not), in
 * separate files, one per file of tokens. Fine-tuning on conversations learns only the answers: the
 * tokens of prompts are read, but are not targets.
 *
 * A token's byte says whether the token itself is a target. Sample i has the targets
 * [i*T + 1, i*T + T]; the number of counted ones is computed once, when the mask is opened, so the
 * divisor of a step's losses is known without reading its bytes again. A node keeps these numbers
 * of a mapped mask (model/data/mask_counts.h).
 *
 * Immutable once open: any thread may read.
 */
#pragma once

#include <stdbool.h>

#include "model/data/mask_counts.h"
#include "model/data/token_scan.h"

/* A target that does not count: the kernels give it no loss and no gradient. */
#define LOSS_MASK_IGNORED (-1)

struct loss_mask {
    struct token_row bytes; /* one per token of the row; empty: every token counts */
    uint32_t *counts;       /* counted targets of each sample */
    bool counted;           /* `counts` was computed, not loaded */
    struct file_list files;
    const char *key; /* as in the options */
};

struct loss_mask_options {
    const char *key;               /* of the job file, for messages: "data.mask" */
    const char *const *paths;      /* as file_list_find() takes them */
    unsigned path_count;           /* 0: every token counts */
    const struct file_list *files; /* of the row; borrowed for the call */
    const struct token_row *row;   /* borrowed for the call */
    unsigned context;
    uint64_t sample_count;
    uint64_t memory_max_bytes, map_min_bytes; /* as for a token row */
    const struct mask_counts *kept; /* the kept counts of this mask, whose data is known; or NULL */
};

/**
 * loss_mask_open() - open the masks. Errors as token_row_open(), and -EINVAL: not one file for each
 * of the row's, a file of another size than its tokens, a mask that is among the row's files, a
 * byte other than 0 and 1 in a mask that is not mapped: loss_mask_scan() checks mapped masks
 */
int loss_mask_open(const struct loss_mask_options *options, struct loss_mask *ret_mask,
                   struct error *error) CHECK_RESULT;
void loss_mask_done(struct loss_mask *mask);

/** loss_mask_scan() - hash the bytes as token_row_hash(), and check those of a mapped mask; errors
 * as token_scan_run(), but -EINVAL: a byte other than 0 and 1 */
int loss_mask_scan(const struct loss_mask *mask, struct token_scan_progress *progress,
                   struct hash_stream *stream, struct error *error) CHECK_RESULT;

/** loss_mask_is_given() - return whether there is a mask. Without a mask every token counts, and
 * the calls below must not be made */
bool loss_mask_is_given(const struct loss_mask *mask);

/** loss_mask_count() - return the number of targets of a sample that count */
unsigned loss_mask_count(const struct loss_mask *mask, uint64_t sample);

/** loss_mask_apply() - set @targets, the row's tokens [first, first + count), to LOSS_MASK_IGNORED
 * where they do not count */
void loss_mask_apply(const struct loss_mask *mask, uint64_t first, size_t count, int32_t *targets);
