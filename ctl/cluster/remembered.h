/*
 * Keep the last keys of a cluster in the user's cache folder. While etcd is unreachable, the file
 * still has the nodes and their addresses, and firnctl asks the nodes directly. Keys of links are
 * not kept.
 */
#pragma once

#include "membership/kv/kv.h"

#define REMEMBERED_PATH_SIZE 1024
#define REMEMBERED_FILES_MAX 64 /* one per cluster; the oldest file is removed */

/** remembered_path() - find the file for @cluster at @endpoints. Return: false: no cache folder */
bool remembered_path(const char *endpoints, const char *cluster,
                     char ret_path[REMEMBERED_PATH_SIZE]);
/** remembered_save() - save the keys, best effort, readable only by the user; keep at most
 * REMEMBERED_FILES_MAX files */
void remembered_save(const char *path, const struct kv_entry *entries, size_t count);
/**
 * remembered_load() - call @take with all saved entries; entries are borrowed; @ret_unix_ns: the
 * time of the save
 * Return: 0, the error of @take, -ENOENT, -EINVAL, -ENOMEM
 */
int remembered_load(const char *path,
                    int (*take)(void *context, const struct kv_entry *entries, size_t count,
                                struct error *error),
                    void *context, uint64_t *ret_unix_ns, struct error *error) CHECK_RESULT;
