/*
 * Create a job's checkpoint folder, once.
 *
 * Problem: a disk that is unmounted under a running job leaves its mount point, an empty folder on
 * another disk. A worker that creates the job's folder there writes checkpoints that disappear when
 * the disk is back, or fills a small disk that other programs need.
 *
 * Design: the folder is created only if it was never seen, and only in the folder that was its
 * nearest existing ancestor when the worker started: the same device and inode. An existing job
 * folder is always accepted, so a disk that is mounted again, also under another device number as
 * network disks are, is used at once.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/io/io.h"

struct checkpoint_home {
    char folder[FOLDER_PATH_SIZE]; /* the job's folder */
    bool seen;                     /* it has existed once */
    /* Until then: the ancestor in which it is created. */
    char above[FOLDER_PATH_SIZE];
    dev_t device;
    ino_t inode;
};

/** checkpoint_home_init() - examine the folder and its ancestors; creates nothing. @folder: any
 * length up to CHECKPOINT_FOLDER_MAX */
void checkpoint_home_init(struct checkpoint_home *home, const char *folder);
/**
 * checkpoint_home_enter() - ensure that the folder exists, and create it if allowed; call before
 * any write to it
 * Return: 0; -ENODEV: the folder, or the ancestor in which to create it, has disappeared; errors of
 * io->make_directory()
 */
int checkpoint_home_enter(struct checkpoint_home *home, const struct io *io,
                          struct io_context *context, struct error *error) CHECK_RESULT;
