/*
 * The safetensors container: u64 header length, JSON header, data; read by Hugging Face's tools.
 * When written, the header is padded with spaces so that data begins on a 4 KiB boundary, and
 * tensors of whole blocks come first. When read, every bound is checked: lengths, offsets (no
 * overlap, no hole beyond padding, inside the file), shapes times dtype, duplicate names, depth.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

#define SAFETENSORS_NAME_SIZE 256
#define SAFETENSORS_RANK_MAX  8
#define SAFETENSORS_HEADER_MAX                                                                     \
    100000000u /* bytes of JSON; the reference implementation has the same limit */
#define SAFETENSORS_ALIGN 4096

enum safetensors_dtype {
    SAFETENSORS_F32,
    SAFETENSORS_BF16,
    SAFETENSORS_F16,
    SAFETENSORS_I64,
    SAFETENSORS_U8
};

struct safetensors_entry {
    char name[SAFETENSORS_NAME_SIZE];
    enum safetensors_dtype dtype;
    unsigned rank;
    size_t shape[SAFETENSORS_RANK_MAX];
    uint64_t offset, size_bytes; /* in the file (absolute) */
    size_t user;                 /* the caller's number, kept when entries are reordered */
};

struct safetensors_index {
    struct safetensors_entry *entries;
    size_t count;
    uint64_t header_bytes; /* 8 + JSON with padding: offset of the data */
    uint64_t file_bytes;
};

void safetensors_index_done(struct safetensors_index *index);
/** safetensors_dtype_bytes() - return the size of one element. safetensors_dtype_name() - return
 * the name in the header */
unsigned safetensors_dtype_bytes(enum safetensors_dtype dtype);
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
/**
 * safetensors_layout() - assign sizes and offsets to entries and build the header
 * @index: name, dtype, rank and shape of every entry are set; entries are reordered: those of whole
 * 4 KiB blocks first, then wider elements, otherwise stable
 * @ret_header: the file's first header_bytes
 *
 * Return: 0; -EINVAL (empty, odd or repeated name, rank, overflowing shape), -EFBIG (header),
 * -ENOMEM.
 */
int safetensors_layout(struct safetensors_index *index, struct bytes *ret_header) CHECK_RESULT;
/** safetensors_header_size() - compute *ret_bytes, 8 + JSON, from a file's first 8 bytes;
 * -EBADMSG if impossible */
int safetensors_header_size(const uint8_t data[8], uint64_t file_bytes, uint64_t *ret_bytes,
                            struct error *error) CHECK_RESULT;
/** safetensors_parse() - parse a header; @data: the file's first bytes (all of the header);
 * -EBADMSG with the cause, -ENOMEM. Entries are sorted by offset */
int safetensors_parse(const uint8_t *data, size_t size_bytes, uint64_t file_bytes,
                      struct safetensors_index *ret_index, struct error *error) CHECK_RESULT;
/** safetensors_open() - read and parse the header of a file; errors name the file */
int safetensors_open(const char *path, struct safetensors_index *ret_index,
                     struct error *error) CHECK_RESULT;
