/*
 * Mark or remove single checkpoints. A mark is an empty file in the checkpoint's folder:
 * - `pinned`: retention never removes the checkpoint.
 * - `verified`: every tensor was read and compared since it was written, by a scrub, or by the
 *   workers of a whole job that resumed from it.
 * - `damaged`: a file differs from its checksums.
 * Marks need no etcd, are copied with the folder, and are visible to the job's writers on any node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define CHECKPOINT_PIN_NAME      "pinned"
#define CHECKPOINT_VERIFIED_NAME "verified"
#define CHECKPOINT_DAMAGED_NAME  "damaged"

/** checkpoint_pin() - pin the complete checkpoint at @path. Return: 0 when the pin is durable,
 * also if it existed; -ENOENT (no such checkpoint, or just removed), -EACCES, -EROFS, ... */
int checkpoint_pin(const char *path, struct error *error) CHECK_RESULT;
/** checkpoint_unpin() - remove the pin. Return: 0 also if there was none */
int checkpoint_unpin(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_pinned(const char *path);

/** checkpoint_mark_verified() - mark a checkpoint that has just been read completely and is
 * good. Return: 0 when the mark is durable; errors as checkpoint_pin(). Retention never removes
 * the newest checkpoint with this mark */
int checkpoint_mark_verified(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_verified(const char *path);
/** checkpoint_verified_ns() - return the time of the last verification, in Unix time; 0: never,
 * or damaged */
uint64_t checkpoint_verified_ns(const char *path);

/** checkpoint_mark_damaged() - mark a checkpoint with a corrupt file: it is not verified any
 * more, and no later checkpoint shares files with it. Errors as checkpoint_pin() */
int checkpoint_mark_damaged(const char *path, struct error *error) CHECK_RESULT;
bool checkpoint_damaged(const char *path);

/* The marks that let a checkpoint stay. */
struct checkpoint_marks {
    bool pinned, verified;
};

/** checkpoint_marks_read() - read the marks of the checkpoint at @path */
struct checkpoint_marks checkpoint_marks_read(const char *path);

/* State of deciding which checkpoints stay, from the newest to the oldest. */
struct keep_rule {
    /* keep: number of unpinned checkpoints to keep; kept: number of these seen so far */
    unsigned keep, kept;
    bool verified_seen;
};

enum keep_reason {
    KEEP_GOES,
    KEEP_NUMBERED, /* one of the newest `keep` */
    KEEP_SPARED,   /* pinned, or the newest verified: in addition */
};

/** keep_reason() - decide for a checkpoint with these marks, the next older one that counts */
enum keep_reason keep_reason(struct keep_rule *rule, struct checkpoint_marks marks);

/**
 * checkpoint_removable() - check whether checkpoint_remove() would remove a checkpoint
 * @path: <job's folder>/step-<10 digits>
 * @even_newest: allow the newest one, from which the job would resume
 *
 * A checkpoint whose manifest does not load may be removed, and does not count as a newer one.
 * Return: 0; -EINVAL (not the name of a checkpoint), -ENOENT, -EPERM (pinned), -EBUSY (the newest).
 */
int checkpoint_removable(const char *path, bool even_newest, struct error *error) CHECK_RESULT;
/** checkpoint_remove() - remove a checkpoint, durably and atomically, if it is removable. Files
 * that other checkpoints link stay there */
int checkpoint_remove(const char *path, bool even_newest, struct error *error) CHECK_RESULT;
