/*
 * Expand a list of paths to files: a file itself, a folder's regular files at any depth, or the
 * matches of a glob. The result is sorted bytewise by path without duplicates, so that the same
 * tree gives the same order on every node and in every locale.
 *
 * Globs match files, not folders. * ? [] match inside one name and not a leading dot; ** as a whole
 * component matches any number of folders except hidden ones ("src/" followed by a double star and
 * "*.h"). A folder includes its hidden files. Symbolic links to files are followed everywhere.
 * Links to folders are followed only when a path or a glob component names them, never by ** or
 * inside a folder, so that no loop is possible. Dangling links, sockets, pipes and devices are
 * skipped.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define FILE_LIST_MAX 1000000 /* files, and folders on the way to them */

struct listed_file {
    char *path;
    uint64_t size_bytes; /* at the time of the walk */
};

struct file_list {
    struct listed_file *files;
    size_t count, capacity;
};

/**
 * file_list_find() - expand @paths to files
 * @key: the job key or option of the paths, for messages: "data.path"
 *
 * Return: 0; -ENOENT (a path does not exist, a glob matches nothing), -EINVAL (a path is neither
 * file nor folder; a glob of too many components), -E2BIG (over FILE_LIST_MAX files or folders),
 * -ENOMEM, or the error of reading a folder. @ret_files is written only on success.
 */
int file_list_find(const char *key, const char *const *paths, unsigned path_count,
                   struct file_list *ret_files, struct error *error) CHECK_RESULT;
void file_list_done(struct file_list *files);
