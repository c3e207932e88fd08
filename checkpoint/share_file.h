/* Inside of a share: what preparing (share.c) leaves for writing (share_write.c). */
#pragma once

#include "checkpoint/folder.h"
#include "checkpoint/share.h"

#define SHARE_FILES_MAX 2

struct share_file {
    char name[MANIFEST_FILE_SIZE];
    char path[FOLDER_FILE_SIZE];
    struct safetensors_index index; /* an entry's user: index into the share's tensors */
    uint8_t *header;                /* index.header_bytes, 4 KiB-aligned */
    uint32_t *chunk_crcs;
    size_t chunk_count;
    int descriptor;    /* -1: not open */
    bool created;      /* and so to be removed if the share fails */
    size_t next_entry; /* staging: the first entry that is not complete */
};

struct share {
    unsigned rank, world;
    char directory[FOLDER_PATH_SIZE];
    struct checkpoint_tensor *tensors;
    unsigned tensor_count;
    struct share_file files[SHARE_FILES_MAX];
    unsigned file_count;
    struct hash_stream *hash; /* of the tensor being staged, NULL between tensors */
    struct manifest part;     /* tensors are entered as they are staged */
};
