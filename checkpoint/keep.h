/*
 * What a person decides about single checkpoints: to keep one whatever retention says, or to remove
 * one. A pin is an empty file called `pinned` in the checkpoint's folder: it needs no etcd, goes
 * along with a copy, and the writers of the job see it wherever they run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define CHECKPOINT_PIN_NAME "pinned"

/** checkpoint_pin() - @path: of one complete checkpoint. 0 when the pin is durable, also when it
 * was there; -ENOENT (no such checkpoint, or just removed), -EACCES, -EROFS, ... */
int checkpoint_pin(const char *path, struct error *error) CHECK_RESULT;
/** checkpoint_unpin() - 0 also when there was no pin */
int checkpoint_unpin(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_pinned(const char *path);

/**
 * checkpoint_removable() - whether checkpoint_remove() would be willing
 * @path: <job's folder>/step-<10 digits>
 * @even_newest: also the newest one, which the job would go on from
 *
 * A checkpoint whose manifest does not load may be removed too, and counts as no newer one.
 * Return: 0; -EINVAL (not the name of a checkpoint), -ENOENT, -EPERM (pinned), -EBUSY (the newest).
 */
int checkpoint_removable(const char *path, bool even_newest, struct error *error) CHECK_RESULT;
/** checkpoint_remove() - take one away, durably and all at once, unless it is not removable. Files
 * that other checkpoints link stay theirs */
int checkpoint_remove(const char *path, bool even_newest, struct error *error) CHECK_RESULT;
