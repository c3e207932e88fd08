/*
 * The XML that an S3 store answers with, read by expat and bounded: listings, the begin and end of
 * an upload, errors. A document type or an entity of its own is refused, so nothing can grow.
 * Elements that we do not know are passed over; names with a namespace's prefix are not ours.
 */
#pragma once

#include "checkpoint/object/object.h"

#define OBJECT_XML_BYTES_MAX (8u << 20) /* of one answer; 1,000 keys of full length fit */

struct object_page {
    char root[64]; /* "ListBucketResult", "Error", ... */
    bool truncated;
    char next[OBJECT_KEY_SIZE]; /* NextContinuationToken, NextKeyMarker, NextPartNumberMarker */
    char next_upload[OBJECT_TAG_SIZE]; /* NextUploadIdMarker */
    char upload[OBJECT_TAG_SIZE];      /* UploadId, of a begun upload */
    char algorithm[32];                /* ChecksumAlgorithm, of a list of parts */
    char code[64], message[256];       /* of an error */
    char region[64];                   /* of an error: where the bucket is */
};

/**
 * object_xml_parse() - one answer
 * @list: gets its Contents, Uploads or Parts; NULL: they are passed over
 *
 * Return: 0; -EBADMSG: @error says where; -ENOMEM; -EFBIG. *ret_page is written only on success;
 * what was added to @list stays.
 */
int object_xml_parse(const void *text, size_t size_bytes, struct object_page *ret_page,
                     struct object_list *list, struct error *error) CHECK_RESULT;
