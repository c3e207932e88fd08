/*
 * A node reads large training data once, not once for each worker and start: whether all tokens are
 * in the vocabulary, and the digest of the data, are kept in a folder that all workers of the node
 * share. Only mapped data has an entry; copied data is read anyway.
 *
 * An entry's name is a digest of the format, the vocabulary, and path, device, inode, size and
 * times of every file, so data that changed has another name, and no entry. Its first line has the
 * version of the entry and of the checks that it stands for: an entry of another version counts as
 * missing, as does a damaged one and one of another name. Workers that start together wait for a
 * lock on the entry: the first worker reads the data, and the others find its entry. The lock ends
 * with its process, and the next worker reads. A worker that finds bad data leaves the error to
 * those that wait, and only to them: a later start reads again. The folder holds DIGEST_FOLDER_MAX
 * entries at most (model/data/digest_folder.h), and may be removed at any time.
 *
 * A file system's clock has ticks: a write in the same tick as the one before does not move the
 * times of a file. So the reader waits until the last change of all files, of content or of times,
 * is two seconds old, and every write after that moves a time. Files whose last change lies in the
 * future of this node's clock get no entry.
 */
#pragma once

#include "model/data/dataset.h"

struct data_digests {
    bool watched;            /* the data is large: its files must not change while they are read */
    bool known;              /* @digest is valid, and all tokens are in the vocabulary */
    struct hash128 digest;   /* valid if known */
    struct hash128 identity; /* of all files */
    uint64_t changed_ns;     /* the last change of any file, of content or of times */
    bool settled;            /* a change after that moves a time */
    struct hash128 key;      /* the entry's name */
    const char *folder;      /* NULL: nothing is kept */
    bool waited;             /* for another process that had the lock */
    int lock;                /* on the entry while this process reads, else -1 */
};

/**
 * data_digests_begin() - look the data of @options up before it is opened; wait while another
 * process reads the same data; -ERANGE or -EINVAL: it has found the data bad, and @error is its
 * error
 * @ret_memo: to be closed by data_digests_done() in any case; dataset_options.memo_folder is
 * borrowed
 */
int data_digests_begin(const struct dataset_options *options, struct data_digests *ret_memo,
                       struct error *error) CHECK_RESULT;

/** data_digests_end() - keep @digest after all data was read and checked: then the data is known;
 * -EIO when a file changed meanwhile
 */
int data_digests_end(struct data_digests *memo, const struct dataset_options *options,
                     struct hash128 digest, struct error *error) CHECK_RESULT;
/** data_digests_fail() - leave the error of bad content to the processes that wait; others are
 * ignored */
void data_digests_fail(const struct data_digests *memo, const struct dataset_options *options,
                       const struct error *error);
/** data_digests_path() - return the path of the entry with @ending, from malloc(); NULL: nothing is
 * kept of this data */
char *data_digests_path(const struct data_digests *memo, const char *ending);
/** data_digests_limit() - remove what was not used for the longest time */
void data_digests_limit(const struct data_digests *memo);
void data_digests_done(struct data_digests *memo);
