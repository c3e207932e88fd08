/*
 * Power cuts, enumerated. All operations of one piece of work on a job's folder are recorded
 * (record_io.h). For every prefix of the recording, the operations that no sync has made durable
 * yet may or may not have reached the disk, in any combination, and a write may have reached the
 * disk by half. The states that this allows are built as real folders and given to a check.
 *
 * The combinations: all 2^p while p is small; else none, all, each operation alone, each operation
 * missing, and random subsets from a fixed seed, with halves. A state that was seen before is not
 * checked again.
 *
 * Folders and files are identified as inodes are: by the place of their creation, not by the name
 * that an operation uses. So a renamed folder takes along the content that has reached it, and a
 * folder whose creation was lost loses its content.
 */
#pragma once

#include <stdbool.h>

#include "base/hash.h"
#include "checkpoint/format/folder.h"
#include "lib/checkpoint/record_io.h"
#include "lib/checkpoint/sample.h"

#define CRASH_SEEN_MAX 65536

/* The files and folders behind the paths of one operation at the time of the operation. */
struct crash_meaning {
    bool is_folder; /* of the job's folder, not of a file in one */
    unsigned folder, target_folder, file;
};

struct crash {
    char recorded[64]; /* the job's folder that the recording ran in */
    char replay[64];   /* states are built here, on top of the initial content */
    /* Called with each state; @finished: the work had returned. Fails the test when it is wrong */
    void (*check)(struct crash *crash, bool finished);
    unsigned began;                      /* operations before it are of the past, and durable */
    unsigned state_count, present_count; /* the check counts the states with the new checkpoint */
    struct crash_meaning meanings[RECORD_MAX];
    struct hash128 seen[CRASH_SEEN_MAX];
    unsigned seen_count;
};

/* ---- path resolution ---- */

/* ---- durability ---- */

/* ---- states ---- */

/* ---- which of the operations that are not durable are lost ---- */

/** crash_everywhere() - a power cut after every operation from @began on */
void crash_everywhere(struct crash *crash);

/** crash_count() - count the recorded operations of @kind */
unsigned crash_count(enum record_kind kind);
