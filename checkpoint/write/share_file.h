/* Inside of a share: what preparing (share.c) leaves for writing (share_write.c). */
#pragma once

#include "checkpoint/format/folder.h"
#include "checkpoint/write/share.h"

enum share_file_kind { SHARE_MODEL, SHARE_OPTIMIZER, SHARE_FROZEN };

struct share_file {
    enum share_file_kind kind;
    unsigned unit; /* SHARE_FROZEN: whose parameters these are */
    char name[MANIFEST_FILE_SIZE];
    char path[FOLDER_FILE_SIZE];
    struct safetensors_index index; /* an entry's user: index into the share's tensors */
    uint8_t *header;                /* index.header_bytes, 4 KiB-aligned */
    uint32_t *chunk_crcs;
    size_t chunk_count;
    int descriptor;    /* -1: not open */
    bool created;      /* and so to be removed if the share fails */
    bool linked;       /* an earlier checkpoint's file: nothing is left to write */
    size_t next_entry; /* staging: the first entry that is not complete */
};

struct share {
    unsigned rank, world;
    char folder[FOLDER_PATH_SIZE];    /* the job's */
    struct checkpoint_home *home;     /* the same; NULL: it is made whenever it is not there */
    char directory[FOLDER_PATH_SIZE]; /* this share's part folder */
    struct checkpoint_tensor *tensors;
    unsigned tensor_count;
    struct share_file *files;
    unsigned file_count;
    struct hash_stream *hash; /* of the tensor being staged, NULL between tensors */
    struct manifest part;     /* tensors are entered as they are staged */
};

/**
 * share_link_files() - give frozen files that an earlier checkpoint has, bit by bit, a name in this
 * one; enters their tensors into the part and marks them linked
 *
 * Nothing that goes wrong here fails the share: a file that could not be linked is written.
 */
void share_link_files(struct share *share, const struct io *io, struct io_context *context);
