/*
 * The source of an upload: a committed checkpoint's folder on this node and, with copies, the nodes
 * that have the other files.
 *
 * Invariant: bytes from object_source_read() match the CRC32C in the manifest, and the manifest
 * matches the SHA-256 of its commit record. After a damaged copy the next copy is tried.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "checkpoint/remote/remote.h"

struct object_source;

struct object_source_options {
    const char *folder;               /* the checkpoint's folder on this node:
                                         .../step-0000000120 */
    const char *manifest_sha256;      /* of its commit record */
    const char *node;                 /* this node; with @remote */
    struct checkpoint_remote *remote; /* borrowed; NULL: all files must be on this node */
};

/**
 * object_source_open() - open every file that is on this node and keep it open, so that retention
 * may remove the checkpoint
 *
 * Return: 0; without @remote the error of a missing file (-EIO: damaged); with @remote -EAGAIN when
 * no node has a good manifest now; -ECANCELED, -ENOMEM.
 */
int object_source_open(const struct object_source_options *options,
                       struct object_source **ret_source, struct error *error) CHECK_RESULT;
void object_source_close(struct object_source *source); /* NULL allowed */

/**
 * object_source_manifest() - return the manifest; object_source_text() - return its exact text;
 * both owned by the source
 */
const struct manifest *object_source_manifest(const struct object_source *source);
const struct bytes *object_source_text(const struct object_source *source);

/**
 * object_source_read() - read a range of the manifest's @index-th file that begins at a chunk
 * boundary
 *
 * Return: 0; -EIO: all copies are damaged, @error names file and chunk; -EAGAIN: a node that may
 * have a copy is unreachable; -ECANCELED, -ENOMEM, other errors of reading a file.
 */
int object_source_read(struct object_source *source, size_t index, uint64_t offset,
                       uint64_t size_bytes, uint8_t *ret_data, struct error *error) CHECK_RESULT;
