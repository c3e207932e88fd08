/* Commit a folder of durable shares as a checkpoint. */
#pragma once

#include <jansson.h>

#include "checkpoint/format/manifest.h"
#include "checkpoint/io/io.h"
#include "checkpoint/remote/local.h"

/**
 * folder_commit() - turn the folder of a checkpoint's parts into a complete checkpoint
 * @manifest: sealed
 *
 * Checks that every file of the manifest exists with its size (this detects a part folder that not
 * all nodes share), writes model.safetensors.index.json, config.json (@config, Hugging Face's) and
 * manifest.json, which also lists the other two (each fdatasync'ed), fsyncs the folder, renames it
 * to step-N, fsyncs the parent. Afterwards only the etcd record is missing.
 *
 * Return: 0; -EEXIST: step-N exists already; -ENOENT or -EBADMSG for a missing or short file;
 * -ENOSPC, -EIO ... with file and cause. A failure before the rename removes the files of all
 * parts. If only the last fsync fails, step-N exists, complete and valid, but may not survive a
 * power cut.
 */
int folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                  const json_t *config, char ret_path[1024], char ret_sha256[65],
                  struct error *error) CHECK_RESULT;

/** folder_commit_copies() - commit as folder_commit() up to the rename, as the coordinator; only
 * files that @manifest places on this node must be here */
int folder_commit_copies(const struct checkpoint_local *local, const struct manifest *manifest,
                         const json_t *config, char ret_sha256[65],
                         struct error *error) CHECK_RESULT;
