/*
 * Which tokens of a row count in the loss: a byte a token, 1 counts and 0 does not, in files of
 * their own, one for each file of tokens. Fine-tuning on conversations learns the answers alone:
 * the tokens of prompts are read, and nobody is asked to predict them.
 *
 * A token's byte says whether the token itself is a target. Sample i has the targets
 * [i*T + 1, i*T + T]; how many of them count is added up once, when the mask is opened, so that
 * what a step's losses are divided by is known without reading its bytes again.
 *
 * Immutable once open: any thread may read.
 */
#pragma once

#include <stdbool.h>

#include "model/data/token_row.h"

/* A target that does not count: what the kernels take for "no loss, no gradient here". */
#define LOSS_MASK_IGNORED (-1)

struct loss_mask {
    struct token_row bytes; /* one a token of the row; empty: every token counts */
    uint32_t *counts;       /* of each sample */
};

struct loss_mask_options {
    const char *key;               /* of the job file, for messages: "data.mask" */
    const char *const *paths;      /* as file_list_find() takes them */
    unsigned path_count;           /* 0: every token counts */
    const struct file_list *files; /* of the row; borrowed for the call */
    const struct token_row *row;   /* borrowed for the call */
    unsigned context;
    uint64_t sample_count;
    uint64_t memory_max_bytes, map_min_bytes; /* as of a token row */
};

/**
 * loss_mask_open() - errors as token_row_open(), and -EINVAL: not one file for each of the row's, a
 * file of another size than its tokens, one that is among the row's files, a byte but 0 and 1
 */
int loss_mask_open(const struct loss_mask_options *options, struct loss_mask *ret_mask,
                   struct error *error) CHECK_RESULT;
void loss_mask_done(struct loss_mask *mask);

/** loss_mask_is_given() - else every token counts, and the calls below must not be made */
bool loss_mask_is_given(const struct loss_mask *mask);

/** loss_mask_count() - how many targets of a sample count */
unsigned loss_mask_count(const struct loss_mask *mask, uint64_t sample);

/** loss_mask_apply() - those of @targets, the row's tokens [first, first + count), that do not
 * count become LOSS_MASK_IGNORED */
void loss_mask_apply(const struct loss_mask *mask, uint64_t first, size_t count, int32_t *targets);
