/*
 * Power cuts, enumerated. All operations of one piece of work on a job's folder are recorded
 * (record_io.h). For every prefix of the recording, any combination of the operations that no sync
 * has made durable yet may have reached the disk, and half of a write may have reached it. The
 * resulting states are built as real folders and given to a check.
 *
 * With p such operations, the combinations are all 2^p while p is small; otherwise none, all, each
 * operation alone, each operation missing, and random subsets from a fixed seed, with halves. A
 * state that was seen before is not checked again.
 *
 * Folders and files are identified like inodes: by the place of their creation, not by the name
 * that an operation uses. So a renamed folder keeps the content that has reached it, and a folder
 * whose creation was lost loses its content.
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
    /* Called with each state; @finished: the work had returned. Fails the test if it is wrong */
    void (*check)(struct crash *crash, bool finished);
    unsigned began;                      /* operations before it are durable */
    unsigned state_count, present_count; /* the check counts the states with the new checkpoint */
    struct crash_meaning meanings[RECORD_MAX];
    struct hash128 seen[CRASH_SEEN_MAX];
    unsigned seen_count;
};

/* ---- path resolution ---- */

/* ---- durability ---- */

/* ---- states ---- */

/* ---- combinations of lost operations ---- */

/** crash_everywhere() - cut the power after every operation from @began on */
void crash_everywhere(struct crash *crash);

/** crash_count() - count the recorded operations of @kind */
unsigned crash_count(enum record_kind kind);
