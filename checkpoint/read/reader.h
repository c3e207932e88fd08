/*
 * Reads checkpoints: any range of tensors, on any layout, every byte verified.
 */
#pragma once

#include "checkpoint/format/manifest.h"

struct checkpoint_reader;

/**
 * checkpoint_open() - look at a checkpoint and believe nothing
 * @folder: of one checkpoint (…/step-0000000120), wherever it was copied to
 *
 * Checks the manifest (its own checksum; manifest_load() beforehand where a committed SHA-256 is
 * known), that every file is there with its size, every byte of the small files, the chunks that
 * hold safetensors headers, those headers, and that they and the manifest describe the same
 * tensors. The files stay open until checkpoint_close().
 *
 * Return: 0; -ENOENT, -EACCES, ...; -EBADMSG (damaged or foreign); -ENOMEM. @error names file and
 * cause.
 */
int checkpoint_open(const char *folder, struct checkpoint_reader **ret_reader,
                    struct error *error) CHECK_RESULT;

struct checkpoint_remote;

/* A checkpoint whose files lie on several nodes, with copies (remote.h). */
struct checkpoint_source {
    const char *folder;          /* this node's part of it: .../step-0000000120; may be absent */
    const char *node;            /* this node's name; "" for somebody outside */
    const char *manifest_sha256; /* from the commit record */
    struct checkpoint_remote *remote; /* borrowed until checkpoint_close() */
};

/**
 * checkpoint_open_copies() - as checkpoint_open(), where each file may lie here or elsewhere
 *
 * The manifest comes from whoever has the one with that SHA-256. Files that are here are looked at
 * as checkpoint_open() does; one that is missing or damaged is read from other nodes, and the log
 * says so. Nothing of the files elsewhere is read yet.
 *
 * checkpoint_read() then tries every copy of a file in turn. Return, also of the reads:
 * -EHOSTUNREACH when a copy that was not good or not there could not be made up for because a node
 * is away: nothing is known against the checkpoint; -EBADMSG when all copies have been seen and
 * none is good; -ECANCELED, -ENOMEM.
 */
int checkpoint_open_copies(const struct checkpoint_source *source,
                           struct checkpoint_reader **ret_reader, struct error *error) CHECK_RESULT;
void checkpoint_close(struct checkpoint_reader *reader);
const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader);

/**
 * checkpoint_read() - one tensor whole into @ret_data (count f32)
 *
 * Reads the tensor's bytes and no others. Chunks that lie wholly inside are checked by their CRC32C
 * as they come, and all of it by the tensor's XXH3-128; when something differs, the chunks at both
 * ends are read too, to say which one is bad. @ret_data is undefined after a failure. Any number of
 * threads may read at once.
 *
 * Return: 0; -ENOENT when there is no such tensor; -EINVAL when it has not @count elements;
 * -EBADMSG names file and chunk; -EIO and other errors of pread name the file.
 */
int checkpoint_read(struct checkpoint_reader *reader, const char *name, enum manifest_role role,
                    float *ret_data, size_t count, struct error *error) CHECK_RESULT;

/**
 * checkpoint_verify() - every byte of every file against its chunk's CRC32C, at the disk's speed
 * @progress: may be NULL; called on the caller's thread
 *
 * Bypasses the page cache where the file system lets it, so that the disk itself is asked.
 *
 * Return: 0, or -EBADMSG or the error of a read, naming the first bad file and chunk.
 */
int checkpoint_verify(struct checkpoint_reader *reader,
                      void (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                      struct error *error) CHECK_RESULT;

/**
 * checkpoint_is_lost() - what an error of opening or reading means for the checkpoint at @path
 *
 * True: it is damaged or incomplete, or has gone from its folder, and another one must be taken.
 * False: nothing is known against it; this machine is short of memory, may not read it, or does not
 * reach the job's folder at all, and would reach no older checkpoint either.
 */
bool checkpoint_is_lost(const char *path, int code);
