/*
 * A file with one record of a fixed size for each of many samples, shared by the workers of a node.
 *
 * A record's place follows from its index, so there is nothing to look up and nothing to agree on:
 * each process reads and writes at will. Records that were never written are holes. Each record has
 * a hash of its content, of the file's key and of its own index. So a torn write, a flipped bit and
 * a record of another file or place are detected. Two processes that write one record write the
 * same bytes. No durable state of a job depends on the file: it is never synced, and it may be
 * removed at any time.
 *
 * A list of marks, one byte per record, says which records were written: other nodes read it before
 * they fetch (worker/cache/outputs_fetch.h). A mark is a hint: the record alone counts.
 *
 *     head | marks | record 0 | record 1 | ...
 *
 * Growth: a read is one system call and a write three, for any number of records; memory is the
 * kernel's page cache. The marks of ten million samples are 10 MB.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"

struct output_file;

struct output_file_shape {
    struct hash128 key; /* of everything that determines the content */
    uint64_t count;     /* records */
    size_t size_bytes;  /* of the content of one */
};

/** output_file_record_bytes() - return the size of one record in the file */
uint64_t output_file_record_bytes(size_t size_bytes);

/**
 * output_file_open() - open or create the file at @path; a file of another shape is emptied
 *
 * Return: 0; -ENOMEM; an error of the file system, with the path
 */
int output_file_open(const char *path, const struct output_file_shape *shape,
                     struct output_file **ret_file, struct error *error) CHECK_RESULT;
void output_file_close(struct output_file *file); /* NULL allowed */

/**
 * output_file_read() - read record @index into @ret_content (size_bytes of host memory)
 *
 * Return: 0; -ENOENT: it was never written; -EBADMSG: it is damaged, and can be written again; a
 * file system error. @ret_content is undefined after a failure.
 */
int output_file_read(const struct output_file *file, uint64_t index,
                     void *ret_content) CHECK_RESULT;
/** output_file_write() - write record @index. 0; -ENOSPC and other file system errors */
int output_file_write(const struct output_file *file, uint64_t index,
                      const void *content) CHECK_RESULT;
/** output_file_has() - return whether record @index is marked as written */
bool output_file_has(const struct output_file *file, uint64_t index);

/* A part of a file of some shape, as another node reads it. */
struct output_file_part {
    uint64_t offset;
    size_t size_bytes;
};
/** output_file_marks() - return the place of the marks, one byte each; nonzero: written */
struct output_file_part output_file_marks(const struct output_file_shape *shape);
/** output_file_record() - return the place of record @index, its hash included */
struct output_file_part output_file_record(const struct output_file_shape *shape, uint64_t index);
/** output_file_put() - write record @index as read from a file of this shape: @record has the bytes
 * of output_file_record(). -EBADMSG: another record, or a damaged one */
int output_file_put(const struct output_file *file, uint64_t index,
                    const void *record) CHECK_RESULT;

/** output_file_has_space() - return whether a tenth of the file system is free: an optional cache
 * must not fill a disk that others need */
bool output_file_has_space(const struct output_file *file);

/** output_file_condemn() - empty the file; from then on reads and writes fail in all processes that
 * have it open */
void output_file_condemn(const struct output_file *file);
/** output_file_expect() - have the kernel read record @index ahead, in the background */
void output_file_expect(const struct output_file *file, uint64_t index);
