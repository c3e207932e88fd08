#include "checkpoint/object/object_xml.h"

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/object/object_base64.h"

#define DEPTH_MAX 16

/* Depths: root 1, member of the root or row 2, member of a row 3. */
#define MEMBER_DEPTH 2
#define FIELD_DEPTH  3

enum row { ROW_NONE, ROW_OBJECT, ROW_UPLOAD, ROW_PART };

struct reading {
    XML_Parser parser;
    struct object_page page;
    struct object_list *list;
    unsigned depth;
    enum row kind; /* of the current row */
    struct object_item row;
    char key[OBJECT_KEY_SIZE], tag[OBJECT_TAG_SIZE], upload[OBJECT_TAG_SIZE];
    char text[OBJECT_KEY_SIZE]; /* of the innermost element */
    size_t length;
    int status;
    struct error *error;
};

static void fail(struct reading *reading, int status, const char *what)
{
    if (reading->status == 0)
        reading->status = error_set(reading->error, status, "line %lu of the answer: %s",
                                    (unsigned long)XML_GetCurrentLineNumber(reading->parser), what);
    XML_StopParser(reading->parser, XML_FALSE);
}

/* Return the kind of a row by its own name, because stores do not agree on the root's name. */
static enum row row_of(const char *name)
{
    return strcmp(name, "Contents") == 0 ? ROW_OBJECT
           : strcmp(name, "Upload") == 0 ? ROW_UPLOAD
           : strcmp(name, "Part") == 0   ? ROW_PART
                                         : ROW_NONE;
}

static void element_begins(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = user;
    (void)attributes;
    reading->length = 0;
    if (++reading->depth > DEPTH_MAX) {
        fail(reading, -EBADMSG, "nested too deep");
    } else if (reading->depth == 1) {
        snprintf(reading->page.root, sizeof(reading->page.root), "%s", name);
    } else if (reading->depth == MEMBER_DEPTH && reading->list && row_of(name) != ROW_NONE) {
        reading->kind = row_of(name);
        reading->row = (struct object_item){0};
        reading->key[0] = reading->tag[0] = reading->upload[0] = '\0';
    }
}

static void text_comes(void *user, const XML_Char *text, int length)
{
    struct reading *reading = user;
    size_t left = sizeof(reading->text) - 1 - reading->length;
    if (reading->depth < MEMBER_DEPTH)
        return;
    if ((size_t)length > left) {
        fail(reading, -EBADMSG, "a value is too long");
        return;
    }
    memcpy(reading->text + reading->length, text, (size_t)length);
    reading->length += (size_t)length;
}

static bool take_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > max)
        return false;
    *ret_number = number;
    return true;
}

static void take_field(struct reading *reading, const char *name)
{
    uint64_t number = 0;
    const char *text = reading->text;
    if (strcmp(name, "Key") == 0) {
        strcpy(reading->key, text);
    } else if (strcmp(name, "ETag") == 0) {
        strcpy(reading->tag, text);
    } else if (strcmp(name, "UploadId") == 0) {
        strcpy(reading->upload, text);
    } else if (strcmp(name, "Size") == 0) {
        if (!take_number(text, INT64_MAX, &reading->row.size_bytes))
            fail(reading, -EBADMSG, "a size that is no number");
    } else if (strcmp(name, "PartNumber") == 0) {
        if (!take_number(text, OBJECT_PARTS_MAX, &number) || number == 0)
            fail(reading, -EBADMSG, "a part's number that is none");
        reading->row.number = (unsigned)number;
    } else if (strcmp(name, "ChecksumCRC32C") == 0) {
        reading->row.has_crc = object_base64_crc(text, &reading->row.crc32c);
    }
}

static void end_row(struct reading *reading)
{
    struct object_item *row = &reading->row;
    bool part = reading->kind == ROW_PART, upload = reading->kind == ROW_UPLOAD;
    reading->kind = ROW_NONE;
    row->key = part ? NULL : reading->key;
    row->tag = upload ? reading->upload : reading->tag;
    if (part ? row->number == 0 : reading->key[0] == '\0')
        fail(reading, -EBADMSG, "a row without its key");
    else if ((part || upload) && row->tag[0] == '\0')
        fail(reading, -EBADMSG, "a row without its tag");
    else if (reading->status == 0) {
        int status = object_list_add(reading->list, row);
        if (status != 0)
            fail(reading, status,
                 status == -EFBIG ? "the listing is too long" : "no memory for the listing");
    }
}

static void take_member(struct reading *reading, const char *name)
{
    struct object_page *page = &reading->page;
    const struct {
        const char *name;
        char *to;
        size_t size;
        bool may_be_cut;
    } members[] = {
        {"NextContinuationToken", page->next, sizeof(page->next), false},
        {"NextKeyMarker", page->next, sizeof(page->next), false},
        {"NextPartNumberMarker", page->next, sizeof(page->next), false},
        {"NextUploadIdMarker", page->next_upload, sizeof(page->next_upload), false},
        {"UploadId", page->upload, sizeof(page->upload), false},
        {"ChecksumAlgorithm", page->algorithm, sizeof(page->algorithm), true},
        {"Code", page->code, sizeof(page->code), true},
        {"Message", page->message, sizeof(page->message), true},
        {"Region", page->region, sizeof(page->region), true},
    };
    if (strcmp(name, "IsTruncated") == 0)
        page->truncated = strcmp(reading->text, "true") == 0;
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        if (strcmp(name, members[i].name) != 0)
            continue;
        if (reading->length >= members[i].size && !members[i].may_be_cut)
            fail(reading, -EBADMSG, "a value is too long");
        else
            snprintf(members[i].to, members[i].size, "%s", reading->text);
    }
}

static void element_ends(void *user, const XML_Char *name)
{
    struct reading *reading = user;
    reading->text[reading->length] = '\0';
    if (reading->kind != ROW_NONE && reading->depth == FIELD_DEPTH)
        take_field(reading, name);
    else if (reading->kind != ROW_NONE && reading->depth == MEMBER_DEPTH)
        end_row(reading);
    else if (reading->depth == MEMBER_DEPTH)
        take_member(reading, name);
    reading->depth--;
    reading->length = 0;
}

static void document_type(void *user, const XML_Char *name, const XML_Char *system,
                          const XML_Char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    fail(user, -EBADMSG, "a document type has no place in it");
}

int object_xml_parse(const void *text, size_t size_bytes, struct object_page *ret_page,
                     struct object_list *list, struct error *error)
{
    if (size_bytes > OBJECT_XML_BYTES_MAX)
        return error_set(error, -EFBIG, "the answer has more than %u bytes", OBJECT_XML_BYTES_MAX);
    AUTO_FREE struct reading *reading = calloc(1, sizeof(*reading));
    XML_Parser parser = XML_ParserCreate(NULL);
    if (!reading || !parser) {
        XML_ParserFree(parser);
        return error_set(error, -ENOMEM, "no memory to read the answer");
    }
    reading->parser = parser;
    reading->list = list;
    reading->error = error;
    XML_SetUserData(parser, reading);
    XML_SetElementHandler(parser, element_begins, element_ends);
    XML_SetCharacterDataHandler(parser, text_comes);
    XML_SetStartDoctypeDeclHandler(parser, document_type);
    if (XML_Parse(parser, text, (int)size_bytes, XML_TRUE) != XML_STATUS_OK && reading->status == 0)
        fail(reading, XML_GetErrorCode(parser) == XML_ERROR_NO_MEMORY ? -ENOMEM : -EBADMSG,
             XML_ErrorString(XML_GetErrorCode(parser)));
    XML_ParserFree(parser);
    if (reading->status == 0) {
        if (list && strcmp(reading->page.algorithm, "CRC32C") == 0)
            list->checksums = true;
        *ret_page = reading->page;
    }
    return reading->status;
}
