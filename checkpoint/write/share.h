/*
 * One share of a checkpoint: prepared on the trainer's thread (plain memory, no I/O), written on
 * the writer's thread. A share that fails removes its files.
 */
#pragma once

#include <stdatomic.h>

#include "checkpoint/format/safetensors.h"
#include "checkpoint/write/staging.h"
#include "checkpoint/write/writer.h"

struct share;

/** share_prepare() - copy the descriptions, lay out the files; errors as
 * checkpoint_writer_begin() */
int share_prepare(const struct checkpoint_share *description,
                  struct share **ret_share) CHECK_RESULT;
void share_free(struct share *share);

/**
 * share_write() - write the whole share durably
 * @stop: when it becomes true the share is abandoned (-ECANCELED)
 * @staged: called once when no tensor's memory is needed any more; not called on failure before
 * that
 */
int share_write(struct share *share, struct staging *staging, const atomic_bool *stop,
                void (*staged)(void *context), void *context, struct error *error) CHECK_RESULT;

/** share_take_part() - take the manifest part of a written share; the caller owns it */
void share_take_part(struct share *share, struct manifest *ret_part);
