/* Changing the record of one checkpoint, unless somebody else changes it at the same moment. */
#pragma once

#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"
#include "ctl/command/arguments.h"

/**
 * record_change() - read the record of @place, which was found by a job's name, change it, write it
 * Return: 0; -ENOENT: retention has removed it; -EAGAIN: it was changed meanwhile, or is of another
 * checkpoint by now; the errors of etcd, -ENOMEM
 */
int record_change(const struct arguments *arguments, const struct checkpoint_place *place,
                  void (*change)(struct checkpoint_record *record, const void *context),
                  const void *context, struct error *error) CHECK_RESULT;

/** record_note_damage() - @status and @why are what reading the checkpoint came to: where that says
 * that it is lost, its record says so from now on. What fails is a warning on standard error */
void record_note_damage(const struct arguments *arguments, const struct checkpoint_place *place,
                        int status, const char *why);
/** record_note_sound() - it was read whole and is good: its record says nothing else any more */
void record_note_sound(const struct arguments *arguments, const struct checkpoint_place *place);
