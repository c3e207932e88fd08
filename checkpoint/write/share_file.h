/* Internals of a share, passed from preparing (share.c) to writing (share_write.c). */
#pragma once

#include "checkpoint/format/folder.h"
#include "checkpoint/write/share.h"

enum share_file_kind { SHARE_MODEL, SHARE_OPTIMIZER, SHARE_FROZEN };

struct share_file {
    enum share_file_kind kind;
    unsigned unit; /* SHARE_FROZEN: the unit of the parameters */
    char name[MANIFEST_FILE_SIZE];
    char path[FOLDER_FILE_SIZE];
    struct safetensors_index index; /* an entry's user: index of the share's tensor */
    uint8_t *header;                /* index.header_bytes, 4 KiB-aligned */
    uint32_t *chunk_crcs;
    size_t chunk_count;
    int descriptor;    /* -1: not open */
    bool created;      /* to be removed if the share fails */
    bool linked;       /* link to an earlier checkpoint's file: nothing to write */
    size_t next_entry; /* staging: first incomplete entry */
};

struct share {
    unsigned rank, world;
    char folder[FOLDER_PATH_SIZE];    /* the job's folder */
    struct checkpoint_home *home;     /* of the same folder; NULL: create it if missing */
    char directory[FOLDER_PATH_SIZE]; /* this share's part folder */
    struct checkpoint_tensor *tensors;
    unsigned tensor_count;
    struct share_file *files;
    unsigned file_count;
    struct hash_stream *hash; /* of the tensor being staged; NULL between tensors */
    struct manifest part;     /* tensors are added as they are staged */
};

/**
 * share_link_files() - link frozen files that an earlier checkpoint has, bit by bit, into this one;
 * add their tensors to the part and mark the files as linked
 *
 * An error never fails the share: a file that could not be linked is written.
 */
void share_link_files(struct share *share, const struct io *io, struct io_context *context);
