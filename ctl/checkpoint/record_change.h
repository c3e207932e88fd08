/* Change the record of one checkpoint, unless another client changes it at the same time. */
#pragma once

#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/command/arguments.h"

/**
 * record_change() - read, change and write the record of @place, which was found by a job's name
 * Return: 0; -ENOENT: retention has removed the record; -EAGAIN: it was changed meanwhile, or now
 * describes another checkpoint; the errors of etcd; -ENOMEM
 */
int record_change(const struct arguments *arguments, const struct checkpoint_place *place,
                  void (*change)(struct checkpoint_record *record, const void *context),
                  const void *context, struct error *error) CHECK_RESULT;

/** record_note_damage() - record that the checkpoint is damaged, if @status and @why, the result of
 * reading it, show damage. A failure to record is a warning on standard error */
void record_note_damage(const struct arguments *arguments, const struct checkpoint_place *place,
                        int status, const char *why);
/** record_note_sound() - clear the damage in the record of a checkpoint that was read completely
 * and is good */
void record_note_sound(const struct arguments *arguments, const struct checkpoint_place *place);
