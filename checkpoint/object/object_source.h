/*
 * Where the bytes that go into the store are read: a committed checkpoint's folder here and, with
 * copies, the nodes that have what is not here.
 *
 * Invariant: what object_source_read() gives has the CRC32C of the manifest, and the manifest has
 * the SHA-256 of its commit record. A copy that is damaged costs another try with the next one.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/remote.h"

struct object_source;

struct object_source_options {
    const char *folder;               /* this node's, of the checkpoint: .../step-0000000120 */
    const char *manifest_sha256;      /* of its commit record */
    const char *node;                 /* this one; with @remote */
    struct checkpoint_remote *remote; /* borrowed; NULL: everything must be here */
};

/**
 * object_source_open() - every file that is here is open from then on, so that retention may remove
 * the checkpoint
 *
 * Return: 0; without @remote also the error of a file that is missing (-EIO: damaged); with it
 * -EAGAIN when no node gives a good manifest now; -ECANCELED, -ENOMEM.
 */
int object_source_open(const struct object_source_options *options,
                       struct object_source **ret_source, struct error *error) CHECK_RESULT;
void object_source_close(struct object_source *source); /* NULL allowed */

/** object_source_manifest() - and its text, byte for byte; the source's */
const struct manifest *object_source_manifest(const struct object_source *source);
const struct bytes *object_source_text(const struct object_source *source);

/**
 * object_source_read() - a range of the manifest's @index-th file that begins where a chunk does
 *
 * Return: 0; -EIO: damaged wherever it lies, @error names file and chunk; -EAGAIN: a node that may
 * have it is away; -ECANCELED, -ENOMEM, other errors of reading a file.
 */
int object_source_read(struct object_source *source, size_t index, uint64_t offset,
                       uint64_t size_bytes, uint8_t *ret_data, struct error *error) CHECK_RESULT;
