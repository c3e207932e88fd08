/*
 * What etcd said of a cluster last, kept in the user's cache folder: while etcd is away it still
 * says which nodes there are and where, and those are asked for what they know. Keys of links are
 * not kept.
 */
#pragma once

#include "membership/kv/kv.h"

#define REMEMBERED_PATH_SIZE 1024
#define REMEMBERED_FILES_MAX 64 /* of clusters; the one that was asked longest ago goes */

/** remembered_path() - of the file for @cluster at @endpoints; false: there is no cache folder */
bool remembered_path(const char *endpoints, const char *cluster,
                     char ret_path[REMEMBERED_PATH_SIZE]);
/** remembered_save() - best effort; the file is the user's alone, and one of REMEMBERED_FILES_MAX
 */
void remembered_save(const char *path, const struct kv_entry *entries, size_t count);
/**
 * remembered_load() - tell @take about all that was saved; entries are borrowed
 * @ret_unix_ns: when that was
 * Return: 0, what @take returned, -ENOENT, -EINVAL, -ENOMEM
 */
int remembered_load(const char *path,
                    int (*take)(void *context, const struct kv_entry *entries, size_t count,
                                struct error *error),
                    void *context, uint64_t *ret_unix_ns, struct error *error) CHECK_RESULT;
