/* Internals of a reader, shared by reading (reader.c) and scrubbing (verify.c). */
#pragma once

#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

struct reader_file {
    const struct manifest_file *entry;
    char path[FOLDER_FILE_SIZE];
    int descriptor; /* -1: not open */
    bool unchecked; /* only looked at: to be opened and checked before it is read */
};

/* The copy of a file to read: the file of `descriptor`, or @node's. */
struct reader_place {
    int descriptor;
    const char *node; /* NULL: this node */
    bool guessed;     /* the manifest does not list this node for the file */
};

struct checkpoint_reader {
    struct manifest manifest;
    struct reader_file *files; /* the manifest's files, in its order */
    size_t file_count;
    const struct manifest_tensor **by_name; /* sorted by name, then role */
    struct checkpoint_remote *remote;       /* NULL: all files are on this node */
    char node[NAME_SIZE];                   /* this node, for a checkpoint with copies */
    char name[64];                          /* step-..., the name on other nodes */
};

/** reader_find_tensor() - find a tensor; NULL: the checkpoint has none */
const struct manifest_tensor *reader_find_tensor(const struct checkpoint_reader *reader,
                                                 const char *name, enum manifest_role role);
/** reader_find_file() - find the file of a tensor's entry; decoding has checked that it is
 * listed */
const struct reader_file *reader_find_file(const struct checkpoint_reader *reader,
                                           const char *name);
/** reader_place() - return the @index-th place that has @file, this node's first; false: no more */
bool reader_place(const struct checkpoint_reader *reader, const struct reader_file *file,
                  unsigned index, struct reader_place *ret_place);
/** reader_take() - read @size_bytes at @offset of @file from @place; errors as reader_pread()
 * and checkpoint_remote_read() */
int reader_take(const struct checkpoint_reader *reader, const struct reader_file *file,
                const struct reader_place *place, void *ret_data, size_t size_bytes,
                uint64_t offset, struct error *error) CHECK_RESULT;
/** reader_take_file() - read a whole file into @ret_data, from the first copy whose chunks all
 * have their CRC32C */
int reader_take_file(const struct checkpoint_reader *reader, const struct reader_file *file,
                     void *ret_data, struct error *error) CHECK_RESULT;
/** reader_worse() - return the one of two copies' errors that counts for the checkpoint */
int reader_worse(int code, int other);

/** reader_is_metrics() - return whether a file has metrics: lines for operators, in files that
 * several checkpoints share. Damage in them does not prevent a resume. They are checked on use,
 * and by checkpoint_verify() */
bool reader_is_metrics(const char *name);
/** reader_pread() - read at least @size_bytes at @offset, at most @room_bytes (O_DIRECT reads
 * whole blocks); -EBADMSG if the file ends before */
int reader_pread(const struct reader_file *file, int descriptor, void *ret_data, size_t room_bytes,
                 size_t size_bytes, uint64_t offset, struct error *error) CHECK_RESULT;
/** reader_chunk_bytes() - return the size of chunk @chunk: MANIFEST_CHUNK_BYTES, or the rest at
 * the end */
size_t reader_chunk_bytes(const struct reader_file *file, size_t chunk);
/** reader_chunk_error() - set @error with file, chunk and both checksums. Return: -EBADMSG */
int reader_chunk_error(const struct reader_file *file, size_t chunk, uint32_t found,
                       struct error *error);
/** reader_check_chunk() - read a chunk through @buffer (MANIFEST_CHUNK_BYTES) and compare its CRC
 */
int reader_check_chunk(const struct reader_file *file, int descriptor, size_t chunk,
                       uint8_t *buffer, struct error *error) CHECK_RESULT;
