/*
 * Which files a list of paths names: a file itself, a folder's regular files at any depth, or what
 * a glob matches. The result is sorted bytewise by path and names no path twice, so that the same
 * tree gives the same order on every node and in every locale.
 *
 * Globs match files, not folders. * ? [] stay inside a name and do not match a leading dot; ** as a
 * whole component stands for any number of folders, hidden ones left out ("src/" followed by a
 * double star and "*.h"). A folder is taken whole, hidden files too. Symbolic links to files are
 * followed everywhere; links to folders only where a path or a glob component names them, never
 * by ** or inside a folder: so no loop is possible. Links that lead nowhere, sockets, pipes and
 * devices found on the way are left out.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define FILE_LIST_MAX 1000000 /* files, and folders on the way to them */

struct listed_file {
    char *path;
    uint64_t size_bytes; /* when it was found */
};

struct file_list {
    struct listed_file *files;
    size_t count, capacity;
};

/**
 * file_list_find() - @paths to files
 * @key: what asks for them, for messages: "data.path"
 *
 * Return: 0; -ENOENT (a path does not exist, a glob matches nothing), -EINVAL (a path is neither
 * file nor folder; a glob of too many components), -E2BIG (over FILE_LIST_MAX files or
 * folders), -ENOMEM, or why a folder could not be read. @ret_files is written only on success.
 */
int file_list_find(const char *key, const char *const *paths, unsigned path_count,
                   struct file_list *ret_files, struct error *error) CHECK_RESULT;
void file_list_done(struct file_list *files);
