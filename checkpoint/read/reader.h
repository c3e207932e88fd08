/*
 * Read checkpoints: any range of tensors, on any layout, every byte verified.
 */
#pragma once

#include "checkpoint/format/manifest.h"

struct checkpoint_reader;

/**
 * checkpoint_open() - open and check a checkpoint
 * @folder: of one checkpoint (.../step-0000000120), wherever it was copied to
 *
 * Checks the manifest (its own checksum; call manifest_load() first if a committed SHA-256 is
 * known), the presence and size of every file, every byte of the small files, the chunks with
 * safetensors headers, those headers, and that headers and manifest describe the same tensors. The
 * files stay open until checkpoint_close().
 *
 * Return: 0; -ENOENT, -EACCES, ...; -EBADMSG (damaged or foreign); -ENOMEM. @error names file and
 * cause.
 */
int checkpoint_open(const char *folder, struct checkpoint_reader **ret_reader,
                    struct error *error) CHECK_RESULT;

/**
 * checkpoint_open_to_load() - open a checkpoint of which a part is to be loaded
 *
 * As checkpoint_open(), but of the files with tensors only presence and size are checked, and they
 * are closed again: checkpoint_load(), which alone may read the tensors of this reader, opens and
 * checks the files that it reads. So N workers that restore N files read N headers, not N * N.
 */
int checkpoint_open_to_load(const char *folder, struct checkpoint_reader **ret_reader,
                            struct error *error) CHECK_RESULT;

/**
 * checkpoint_look() - check that a checkpoint exists: its manifest, and the presence and size of
 * every file
 *
 * For a caller that must not wait for a disk: besides the manifest nothing is read, however many
 * and large the files are. Return: as checkpoint_open()
 */
int checkpoint_look(const char *folder, struct error *error) CHECK_RESULT;

struct checkpoint_remote;

/* A checkpoint with copies, whose files are spread over several nodes (remote.h). */
struct checkpoint_source {
    /* this node's folder of it: .../step-0000000120; may be absent */
    const char *folder;
    const char *node;                 /* this node's name; "" for a process outside the cluster */
    const char *manifest_sha256;      /* from the commit record */
    struct checkpoint_remote *remote; /* borrowed until checkpoint_close() */
};

/**
 * checkpoint_open_copies() - open a checkpoint as checkpoint_open(), with files on this node or on
 * others
 *
 * The manifest with that SHA-256 is fetched from any node that has it. Files on this node are
 * checked as in checkpoint_open(). A missing or damaged file is read from other nodes, and logged.
 * No file of another node is read yet.
 *
 * checkpoint_read() then tries every copy of a file in turn. Return, also of the reads:
 * -EHOSTUNREACH: no good copy was found and a node is away, so the checkpoint is not known to be
 * bad; -EBADMSG: all copies have been seen and none is good; -ECANCELED, -ENOMEM.
 */
int checkpoint_open_copies(const struct checkpoint_source *source,
                           struct checkpoint_reader **ret_reader, struct error *error) CHECK_RESULT;
void checkpoint_close(struct checkpoint_reader *reader);
const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader);

/**
 * checkpoint_read() - read one whole tensor into @ret_data (count f32)
 *
 * Reads only the tensor's bytes. Chunks completely inside the tensor are checked by their CRC32C as
 * they arrive, and the whole tensor by its XXH3-128. On a mismatch, the chunks at both ends are
 * read as well, to name the bad one. @ret_data is undefined after a failure. Any number of threads
 * may read at once.
 *
 * Return: 0; -ENOENT: no such tensor; -EINVAL: it does not have @count elements; -EBADMSG, with
 * file and chunk; -EIO and other errors of pread, with the file.
 */
int checkpoint_read(struct checkpoint_reader *reader, const char *name, enum manifest_role role,
                    float *ret_data, size_t count, struct error *error) CHECK_RESULT;

#define CHECKPOINT_METRICS_BAD 1

/**
 * checkpoint_verify() - check every byte of every file against its chunk's CRC32C, at the disk's
 * speed
 * @progress: may be NULL; called on the caller's thread
 *
 * Bypasses the page cache if the file system allows it, so that the disk itself is read.
 *
 * Return: 0; CHECKPOINT_METRICS_BAD: only metrics, which no job needs, are damaged or missing;
 * @error names file and chunk; -EBADMSG or a read error: @error names the first bad chunk of the
 * other files.
 */
int checkpoint_verify(struct checkpoint_reader *reader,
                      void (*progress)(void *context, uint64_t done, uint64_t total), void *context,
                      struct error *error) CHECK_RESULT;

/**
 * checkpoint_is_lost() - interpret an error of opening or reading the checkpoint at @path
 *
 * True: it is damaged, incomplete, or missing from its folder; another checkpoint is needed. False:
 * it is not known to be bad. This machine is short of memory, has no permission, or does not reach
 * the job's folder at all, and would not reach an older checkpoint either. A read error (-EIO) also
 * gives false: a file server that is away for a while returns it.
 */
bool checkpoint_is_lost(const char *path, int code);
