/*
 * Bounded parsing of the XML responses of an S3 store with expat: listings, the start and end of an
 * upload, errors. Document types and custom entities are refused, so the input cannot expand.
 * Unknown elements are ignored, and so are names with a namespace prefix.
 */
#pragma once

#include "checkpoint/object/object.h"

#define OBJECT_XML_BYTES_MAX (8u << 20) /* of one response; 1,000 keys of full length fit */

struct object_page {
    char root[64]; /* "ListBucketResult", "Error", ... */
    bool truncated;
    char next[OBJECT_KEY_SIZE]; /* NextContinuationToken, NextKeyMarker, NextPartNumberMarker */
    char next_upload[OBJECT_TAG_SIZE]; /* NextUploadIdMarker */
    char upload[OBJECT_TAG_SIZE];      /* UploadId, of a started upload */
    char algorithm[32];                /* ChecksumAlgorithm, of a list of parts */
    char code[64], message[256];       /* of an error */
    char region[64];                   /* of an error: region of the bucket */
};

/**
 * object_xml_parse() - parse one response
 * @list: receives the Contents, Uploads or Parts; NULL: they are ignored
 *
 * Return: 0; -EBADMSG: @error names the position; -ENOMEM; -EFBIG. *ret_page is written only on
 * success; items already added to @list stay.
 */
int object_xml_parse(const void *text, size_t size_bytes, struct object_page *ret_page,
                     struct object_list *list, struct error *error) CHECK_RESULT;
