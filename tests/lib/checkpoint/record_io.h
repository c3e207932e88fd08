/*
 * An I/O table that carries out all operations and records every change of the disk, in order, with
 * the data of every write. It also asserts the rule on which the crash model relies: no operation
 * is in flight on any file when a file is synced or a name moves.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/io/io.h"

#define RECORD_MAX 4096

enum record_kind {
    RECORD_MAKE_DIRECTORY,
    RECORD_CREATE,
    RECORD_WRITE,
    RECORD_TRUNCATE, /* and reserve: the file has this length, new bytes are zero */
    RECORD_SYNC,
    RECORD_RENAME,
    RECORD_LINK,
    RECORD_UNLINK,
    RECORD_SYNC_DIRECTORY,
};

struct record {
    enum record_kind kind;
    char path[1280], target[1280];
    unsigned file; /* number of the created or linked file */
    uint64_t offset;
    size_t size_bytes;
    uint8_t *data;
};

struct recording {
    const struct io *inner;
    struct record records[RECORD_MAX];
    unsigned count, file_count, in_flight;
    int file_of_descriptor[1024];
};

extern struct recording recording;

/** record_add() - append an operation to the recording. Return: the operation, to be filled */
struct record *record_add(enum record_kind kind, const char *path);

/** record_present() - record the folder at @path and its files as past operations */
void record_present(const char *path);

/** record_table() - return a table that records the changes made through @inner */
const struct io *record_table(const struct io *inner);

/** record_done() - forget the recording */
void record_done(void);
