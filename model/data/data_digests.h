/*
 * Read large training data once per node, not once per worker and start. A folder that all workers
 * of the node share keeps, for each data set, its digest and the fact that all its tokens are in
 * the vocabulary. Only mapped data has an entry; copied data is read anyway.
 *
 * An entry's name is a digest of the format, the vocabulary, and path, device, inode, size and
 * times of every file, so changed data has another name, and no entry. Its first line has the
 * version of the entry and of its checks. An entry of another version counts as missing, and so
 * does a damaged or misnamed entry. Workers that start together wait for a lock on the entry: the
 * first worker reads the data, and the others find its entry. If that worker dies, its lock ends
 * and the next worker reads. A worker that finds bad data passes the error to the workers that
 * wait, and only to them: a later start reads again. The folder holds DIGEST_FOLDER_MAX entries at
 * most (model/data/digest_folder.h), and may be removed at any time.
 *
 * A file system's clock has ticks: a write in the same tick as the one before does not move the
 * times of a file. So the reader waits until the last change of any file's content or times is two
 * seconds old; every later write then moves a time. Files whose last change lies in the future of
 * this node's clock get no entry.
 */
#pragma once

#include "model/data/dataset.h"

struct data_digests {
    bool watched;            /* the data is large: its files must not change while they are read */
    bool known;              /* @digest is valid, and all tokens are in the vocabulary */
    struct hash128 digest;   /* valid if known */
    struct hash128 identity; /* digest of the names and metadata of all files */
    uint64_t changed_ns;     /* the last change of any file, of content or of times */
    bool settled;            /* every later change moves a time */
    struct hash128 key;      /* the entry's name */
    const char *folder;      /* NULL: no entry is kept */
    bool waited;             /* this process waited for another one that had the lock */
    int lock;                /* lock on the entry while this process reads, else -1 */
};

/**
 * data_digests_begin() - look up the data of @options before it is opened, and wait while another
 * process reads the same data. -ERANGE or -EINVAL: that process found the data bad, and @error is
 * its error
 * @ret_memo: close it with data_digests_done(), also on failure; dataset_options.memo_folder is
 * borrowed
 */
int data_digests_begin(const struct dataset_options *options, struct data_digests *ret_memo,
                       struct error *error) CHECK_RESULT;

/** data_digests_end() - keep @digest after all data was read and checked, which makes the data
 * known; -EIO: a file changed meanwhile
 */
int data_digests_end(struct data_digests *memo, const struct dataset_options *options,
                     struct hash128 digest, struct error *error) CHECK_RESULT;
/** data_digests_fail() - pass an error of bad content to the processes that wait; other errors are
 * ignored */
void data_digests_fail(const struct data_digests *memo, const struct dataset_options *options,
                       const struct error *error);
/** data_digests_path() - return the path of the entry with @ending, malloc'ed; NULL: this data has
 * no entry */
char *data_digests_path(const struct data_digests *memo, const char *ending);
/** data_digests_limit() - remove the least recently used entries beyond the limits */
void data_digests_limit(const struct data_digests *memo);
void data_digests_done(struct data_digests *memo);
