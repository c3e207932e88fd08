/*
 * The folder of a job's checkpoints, which is made once.
 *
 * Problem: a disk that is unmounted under a running job leaves its mount point behind, an empty
 * folder of another disk. Whoever makes the job's folder there writes checkpoints where nobody will
 * look for them when the disk is back, or fills a small disk that other things need.
 *
 * Design: the folder is made only where it was not seen before, and only in the folder that was the
 * nearest one above it when the worker began: the same device and inode. A job's folder that is
 * there is never questioned, so a disk that is mounted again, also as another device number as
 * network disks are, is used at once.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/io/io.h"

struct checkpoint_home {
    char folder[FOLDER_PATH_SIZE]; /* the job's */
    bool seen;                     /* it was there once */
    /* Before that: what it is made in. */
    char above[FOLDER_PATH_SIZE];
    dev_t device;
    ino_t inode;
};

/** checkpoint_home_init() - look at what is there; makes nothing. @folder: of any length that
 * checkpoints can have (CHECKPOINT_FOLDER_MAX) */
void checkpoint_home_init(struct checkpoint_home *home, const char *folder);
/**
 * checkpoint_home_enter() - have the folder, made if that is right; before anything is written to
 * it Return: 0; -ENODEV: it has gone, or what it was to be made in has; what io->make_directory()
 * says
 */
int checkpoint_home_enter(struct checkpoint_home *home, const struct io *io,
                          struct io_context *context, struct error *error) CHECK_RESULT;
