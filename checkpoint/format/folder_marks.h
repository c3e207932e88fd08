/*
 * What is decided about single checkpoints beside their number: that one stays whatever retention
 * says, that one is known to be good, that one goes. A pin is an empty file called `pinned` in the
 * checkpoint's folder, and one called `verified` says that every tensor was read and compared
 * since it was written: by a scrub, or by the workers of a whole job that began from it. One called
 * `damaged` says the opposite. They need no etcd, go along with a copy, and the writers of the job
 * see them wherever they run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define CHECKPOINT_PIN_NAME      "pinned"
#define CHECKPOINT_VERIFIED_NAME "verified"
#define CHECKPOINT_DAMAGED_NAME  "damaged"

/** checkpoint_pin() - @path: of one complete checkpoint. 0 when the pin is durable, also when it
 * was there; -ENOENT (no such checkpoint, or just removed), -EACCES, -EROFS, ... */
int checkpoint_pin(const char *path, struct error *error) CHECK_RESULT;
/** checkpoint_unpin() - 0 also when there was no pin */
int checkpoint_unpin(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_pinned(const char *path);

/** checkpoint_mark_verified() - it has just been read whole and is good; 0 when the mark is
 * durable, errors as checkpoint_pin(). Retention never removes the newest that has the mark */
int checkpoint_mark_verified(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_verified(const char *path);
/** checkpoint_verified_ns() - when that was, in Unix time; 0: never, or it is damaged */
uint64_t checkpoint_verified_ns(const char *path);

/** checkpoint_mark_damaged() - a file of it is not what was written; it is verified no more, and no
 * checkpoint shares files with it from now on. Errors as checkpoint_pin() */
int checkpoint_mark_damaged(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_damaged(const char *path);

/* Which checkpoints stay, looked at from the newest to the oldest. */
struct keep_rule {
    unsigned keep, kept; /* so many of the newest that are not pinned; so many of them seen */
    bool verified_seen;
};

enum keep_verdict {
    KEEP_GOES,
    KEEP_NUMBERED, /* one of the newest */
    KEEP_SPARED,   /* pinned, or the newest that is verified: on top of them */
};

/** keep_verdict() - about the checkpoint at @path, the next older one of those that count */
enum keep_verdict keep_verdict(struct keep_rule *rule, const char *path);

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
