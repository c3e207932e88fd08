/*
 * A node reads large training data once, not once for each worker and start: whether all tokens are
 * in the vocabulary, and the digest of the data, are kept in a folder that all workers of the node
 * share. Only mapped data has an entry; copied data is read anyway.
 *
 * An entry's name is a digest of the format, the vocabulary, and path, device, inode, size and
 * times of every file, so data that changed has another name, and no entry. Workers that start
 * together wait for a lock on the entry: the first worker reads the data, and the others find its
 * entry. A damaged entry counts as missing. The folder may be removed at any time.
 *
 * Files that were modified less than two seconds before they are read get no entry: a write in the
 * same tick of the file system's clock would not be seen in their times.
 */
#pragma once

#include "model/data/dataset.h"

struct data_digests {
    bool watched;            /* the data is large: its files must not change while they are read */
    bool known;              /* @digest is valid, and all tokens are in the vocabulary */
    struct hash128 digest;   /* valid if known */
    struct hash128 identity; /* of all files */
    uint64_t newest_ns;      /* when the last of the files was modified */
    uint64_t began_ns;       /* wall clock */
    struct hash128 key;      /* the entry's name */
    const char *folder;      /* NULL: nothing is kept */
    int lock;                /* on the entry while this process reads, else -1 */
};

/**
 * data_digests_begin() - look the data of @options up before it is opened; wait while another
 * process reads the same data
 * @ret_memo: to be closed by data_digests_done() in any case; dataset_options.memo_folder is
 * borrowed
 */
int data_digests_begin(const struct dataset_options *options, struct data_digests *ret_memo,
                       struct error *error) CHECK_RESULT;

/** data_digests_end() - keep @digest after all data was read and checked; -EIO when a file changed
 * meanwhile
 */
int data_digests_end(struct data_digests *memo, const struct dataset_options *options,
                     struct hash128 digest, struct error *error) CHECK_RESULT;
void data_digests_done(struct data_digests *memo);
