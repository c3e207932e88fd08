/* Make a checkpoint out of the folder of its durable parts. */
#pragma once

#include <jansson.h>

#include "checkpoint/format/manifest.h"
#include "checkpoint/io/io.h"
#include "checkpoint/remote/local.h"

/**
 * folder_commit() - make a complete checkpoint out of its parts' folder
 * @manifest: sealed
 *
 * Checks that every file of the manifest is there with its size (a part folder that is not shared
 * by all nodes shows here), writes model.safetensors.index.json, config.json (@config, Hugging
 * Face's) and manifest.json, which also lists the other two (each fdatasync'ed), fsyncs the folder,
 * renames it to step-N, fsyncs the parent. Afterwards only the etcd record is missing.
 *
 * Return: 0; -EEXIST when step-N is there already; -ENOENT or -EBADMSG for a missing or short file;
 * -ENOSPC, -EIO ... with file and cause. A failure before the rename removes the files of all
 * parts. When only the last fsync fails, step-N is there, complete and valid, but may not survive a
 * power cut.
 */
int folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                  const json_t *config, char ret_path[1024], char ret_sha256[65],
                  struct error *error) CHECK_RESULT;

/** folder_commit_copies() - the coordinator: as folder_commit() up to the new name; only files that
 * @manifest places on this node must be here */
int folder_commit_copies(const struct checkpoint_local *local, const struct manifest *manifest,
                         const json_t *config, char ret_sha256[65],
                         struct error *error) CHECK_RESULT;
