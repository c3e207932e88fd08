/*
 * A file with one record of a fixed size for each of many samples, shared by the workers of a node.
 *
 * A record's place follows from its index, so there is nothing to look up and nothing to agree on:
 * each process reads and writes at will. Records that were never written are holes. A record has
 * the hash of its content, and the file's key and its own index go into that hash: a torn write, a
 * flipped bit, a record of another file or of another place is no record. Two processes that write
 * one record write the same bytes. The file is no part of what makes a job durable: it is never
 * synced, and it may be removed at any time.
 *
 * What grows: a read or a write is one system call for any number of records; memory is the
 * kernel's page cache.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/hash.h"

struct output_file;

struct output_file_shape {
    struct hash128 key; /* of all that decides the content */
    uint64_t count;     /* records */
    size_t size_bytes;  /* of the content of one */
};

/** output_file_record_bytes() - return the room of one record in the file */
uint64_t output_file_record_bytes(size_t size_bytes);

/**
 * output_file_open() - open the file at @path, or make it; a file of another shape is emptied
 *
 * Return: 0; -ENOMEM; an error of the file system, with the path
 */
int output_file_open(const char *path, const struct output_file_shape *shape,
                     struct output_file **ret_file, struct error *error) CHECK_RESULT;
void output_file_close(struct output_file *file); /* NULL allowed */

/**
 * output_file_read() - read record @index into @ret_content (size_bytes of host memory)
 *
 * Return: 0; -ENOENT: it was never written; -EBADMSG: it is damaged, and can be written again; an
 * error of the file system. @ret_content is undefined after a failure.
 */
int output_file_read(const struct output_file *file, uint64_t index,
                     void *ret_content) CHECK_RESULT;
/** output_file_write() - write record @index. 0; -ENOSPC and others of the file system */
int output_file_write(const struct output_file *file, uint64_t index,
                      const void *content) CHECK_RESULT;
/** output_file_condemn() - empty the file, for all processes that have it open: a read fails */
void output_file_condemn(const struct output_file *file);
/** output_file_expect() - have the kernel read record @index ahead, in the background */
void output_file_expect(const struct output_file *file, uint64_t index);
