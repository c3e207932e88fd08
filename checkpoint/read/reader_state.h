/* Inside of a reader: shared by reading (reader.c) and scrubbing (verify.c). */
#pragma once

#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"

struct reader_file {
    const struct manifest_file *entry;
    char path[FOLDER_FILE_SIZE];
    int descriptor; /* -1: not open */
};

/* Which copy of a file is read: the one behind `descriptor`, or @node's. */
struct reader_place {
    int descriptor;
    const char *node; /* NULL: here */
    bool guessed;     /* the manifest does not say that it has the file */
};

struct checkpoint_reader {
    struct manifest manifest;
    struct reader_file *files; /* one for each of the manifest's, in its order */
    size_t file_count;
    const struct manifest_tensor **by_name; /* sorted by name, then role */
    struct checkpoint_remote *remote;       /* NULL: everything lies here */
    char node[NAME_SIZE];                   /* this one; of a checkpoint with copies */
    char name[64];                          /* step-..., as other nodes know it */
};

/** reader_find_tensor() - NULL when the checkpoint has none */
const struct manifest_tensor *reader_find_tensor(const struct checkpoint_reader *reader,
                                                 const char *name, enum manifest_role role);
/** reader_find_file() - of a tensor's entry: decoding checked that it is listed */
const struct reader_file *reader_find_file(const struct checkpoint_reader *reader,
                                           const char *name);
/** reader_place() - the @index-th place that has @file, this node's first; false: there are no
 * more */
bool reader_place(const struct checkpoint_reader *reader, const struct reader_file *file,
                  unsigned index, struct reader_place *ret_place);
/** reader_take() - @size_bytes at @offset of @file from @place; errors as reader_pread() and
 * checkpoint_remote_read() */
int reader_take(const struct checkpoint_reader *reader, const struct reader_file *file,
                const struct reader_place *place, void *ret_data, size_t size_bytes,
                uint64_t offset, struct error *error) CHECK_RESULT;
/** reader_take_file() - all of a file into @ret_data, from the first copy of which every chunk has
 * its CRC32C */
int reader_take_file(const struct checkpoint_reader *reader, const struct reader_file *file,
                     void *ret_data, struct error *error) CHECK_RESULT;
/** reader_worse() - of two copies' errors the one that counts for the checkpoint */
int reader_worse(int code, int other);

/** reader_is_metrics() - lines for people, in files that several checkpoints share: no reason not
 * to go on from one. They are checked where they are used, and by checkpoint_verify() */
bool reader_is_metrics(const char *name);
/** reader_pread() - at least @size_bytes at @offset, at most @room_bytes (what O_DIRECT, which
   reads whole blocks, may deliver on top); -EBADMSG when the file ends before */
int reader_pread(const struct reader_file *file, int descriptor, void *ret_data, size_t room_bytes,
                 size_t size_bytes, uint64_t offset, struct error *error) CHECK_RESULT;
/** reader_chunk_bytes() - of chunk @chunk: MANIFEST_CHUNK_BYTES, or what is left at the end */
size_t reader_chunk_bytes(const struct reader_file *file, size_t chunk);
/** reader_chunk_error() - -EBADMSG that names file, chunk and both checksums */
int reader_chunk_error(const struct reader_file *file, size_t chunk, uint32_t found,
                       struct error *error);
/** reader_check_chunk() - read a chunk through @buffer (MANIFEST_CHUNK_BYTES) and compare its CRC
 */
int reader_check_chunk(const struct reader_file *file, int descriptor, size_t chunk,
                       uint8_t *buffer, struct error *error) CHECK_RESULT;
