#include "checkpoint/object/object_s3.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/object/object_base64.h"
#include "checkpoint/object/object_request.h"
#include "checkpoint/object/object_xml.h"

#define LINE_SIZE 128

bool object_bucket_valid(const char *bucket)
{
    size_t length = strlen(bucket);
    if (length < 3 || length > 63 || bucket[0] == '.' || bucket[0] == '-' ||
        bucket[length - 1] == '.' || bucket[length - 1] == '-')
        return false;
    return bucket[strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static int no_memory(struct error *error)
{
    return error_set(error, -ENOMEM, "no memory for a request to the object store");
}

/* Append "&name=value" to a query, which must be built in order of the names */
static int add_parameter(struct bytes *query, const char *name, const char *value)
{
    int status = bytes_append_format(query, "%s%s=", query->size_bytes > 0 ? "&" : "", name);
    return status == 0 ? object_encode(query, value, false) : status;
}

static int end_text(struct bytes *text)
{
    return bytes_append(text, "", 1);
}

/* Send a request and read the XML of the response. Stores agree only on the beginning of the root's
 * name. */
static int ask(struct object_client *client, const struct object_request *request, const char *root,
               struct object_page *ret_page, struct object_list *list, struct error *error)
{
    struct object_answer answer;
    int status = object_request(client, request, &answer, error);
    if (status == 0) {
        status = object_xml_parse(answer.body.data, answer.body.size_bytes, ret_page, list, error);
        if (status == 0 && strncmp(ret_page->root, root, strlen(root)) != 0)
            status =
                error_set(error, -EBADMSG, "the answer is a %s, not a %s", ret_page->root, root);
        if (status != 0)
            error_prefix(error, "%s %s/%s: ", request->method, object_client_where(client),
                         request->key ? request->key : "");
    }
    if (status == 0 && strcmp(answer.algorithm, "CRC32C") == 0)
        snprintf(ret_page->algorithm, sizeof(ret_page->algorithm), "%s", answer.algorithm);
    object_answer_done(&answer);
    return status;
}

static int forgive_absence(int status, struct error *error)
{
    if (status != -ENOENT)
        return status;
    if (error)
        error_clear(error);
    return 0;
}

/* ---- listings, page by page ---- */

struct listing {
    const char *root;
    int (*make_query)(struct bytes *query, const char *subject, const struct object_page *after);
};

/* The queries below have their parameters in order of the names, as the signature requires. */
static int query_objects(struct bytes *query, const char *prefix, const struct object_page *after)
{
    int status = after ? add_parameter(query, "continuation-token", after->next) : 0;
    if (status == 0)
        status = add_parameter(query, "list-type", "2");
    return status == 0 ? add_parameter(query, "prefix", prefix) : status;
}

static int query_uploads(struct bytes *query, const char *prefix, const struct object_page *after)
{
    int status = after ? add_parameter(query, "key-marker", after->next) : 0;
    if (status == 0)
        status = add_parameter(query, "prefix", prefix);
    if (status == 0 && after)
        status = add_parameter(query, "upload-id-marker", after->next_upload);
    return status == 0 ? add_parameter(query, "uploads", "") : status;
}

static int query_parts(struct bytes *query, const char *upload, const struct object_page *after)
{
    int status = after ? add_parameter(query, "part-number-marker", after->next) : 0;
    return status == 0 ? add_parameter(query, "uploadId", upload) : status;
}

static const struct listing objects_listing = {"ListBucket", query_objects};
static const struct listing uploads_listing = {"ListMultipartUploads", query_uploads};
static const struct listing parts_listing = {"ListParts", query_parts};

static int list_page(struct object_client *client, const struct listing *listing, const char *key,
                     const char *subject, const struct object_page *after,
                     struct object_page *ret_page, struct object_list *list, struct error *error)
{
    struct bytes query = {0};
    int status = listing->make_query(&query, subject, after);
    if (status == 0)
        status = end_text(&query);
    const struct object_request request = {
        .method = "GET", .key = key, .query = (const char *)query.data};
    status = status != 0 ? no_memory(error)
                         : ask(client, &request, listing->root, ret_page, list, error);
    bytes_done(&query);
    return status;
}

static int list_all(struct object_client *client, const struct listing *listing, const char *key,
                    const char *subject, struct object_list *ret_list, struct error *error)
{
    AUTO_FREE struct object_page *pages = calloc(2, sizeof(*pages));
    struct object_list list = {0};
    if (!pages)
        return no_memory(error);
    int status = list_page(client, listing, key, subject, NULL, &pages[0], &list, error);
    while (status == 0 && pages[0].truncated) {
        size_t before = list.count;
        status = list_page(client, listing, key, subject, &pages[0], &pages[1], &list, error);
        if (status == 0 && list.count == before && pages[1].truncated)
            status = error_set(error, -EBADMSG, "%s: a listing that has no end",
                               object_client_where(client));
        pages[0] = pages[1];
    }
    if (status == 0)
        *ret_list = list;
    else
        object_list_done(&list);
    return status;
}

static int s3_list(void *context, const char *prefix, struct object_list *ret_list,
                   struct error *error)
{
    return list_all(context, &objects_listing, NULL, prefix, ret_list, error);
}

static int s3_list_uploads(void *context, const char *prefix, struct object_list *ret_list,
                           struct error *error)
{
    return list_all(context, &uploads_listing, NULL, prefix, ret_list, error);
}

static int s3_list_parts(void *context, const char *key, const char *upload,
                         struct object_list *ret_list, struct error *error)
{
    return list_all(context, &parts_listing, key, upload, ret_list, error);
}

/* ---- objects ---- */

static int s3_get(void *context, const char *key, uint64_t offset, void *data, size_t size_bytes,
                  struct error *error)
{
    struct object_answer answer;
    const struct object_request request = {
        .method = "GET", .key = key, .range_from = offset, .range_bytes = size_bytes, .into = data};
    if (size_bytes == 0)
        return 0;
    int status = object_request(context, &request, &answer, error);
    object_answer_done(&answer);
    return status;
}

static void checksum_header(uint32_t crc32c, char ret_line[LINE_SIZE])
{
    char text[OBJECT_BASE64_CRC_SIZE];
    object_base64_text(crc32c, text);
    snprintf(ret_line, LINE_SIZE, "x-amz-checksum-crc32c: %s", text);
}

static int s3_put(void *context, const char *key, const void *data, size_t size_bytes,
                  uint32_t crc32c, struct error *error)
{
    char line[LINE_SIZE];
    const char *headers[] = {line, NULL};
    struct object_answer answer;
    const struct object_request request = {
        .method = "PUT", .key = key, .headers = headers, .body = data, .body_bytes = size_bytes};
    checksum_header(crc32c, line);
    int status = object_request(context, &request, &answer, error);
    object_answer_done(&answer);
    return status;
}

static int s3_copy(void *context, const char *from, const char *to, struct error *error)
{
    struct bytes line = {0};
    struct object_page page;
    const char *where = object_client_where(context);
    int status = bytes_append_format(&line, "x-amz-copy-source: /%s/", where + strlen("s3://"));
    if (status == 0)
        status = object_encode(&line, from, true);
    if (status == 0)
        status = end_text(&line);
    const char *headers[] = {(const char *)line.data, NULL};
    const struct object_request request = {.method = "PUT", .key = to, .headers = headers};
    status =
        status != 0 ? no_memory(error) : ask(context, &request, "CopyObject", &page, NULL, error);
    bytes_done(&line);
    return status;
}

static int s3_remove(void *context, const char *key, struct error *error)
{
    struct object_answer answer;
    const struct object_request request = {.method = "DELETE", .key = key};
    int status = object_request(context, &request, &answer, error);
    object_answer_done(&answer);
    return forgive_absence(status, error);
}

/* ---- uploads of parts ---- */

static int s3_begin(void *context, const char *key, struct object_upload *ret_upload,
                    struct error *error)
{
    static const char *const headers[] = {"x-amz-checksum-algorithm: CRC32C", NULL};
    AUTO_FREE struct object_page *page = calloc(1, sizeof(*page));
    const struct object_request request = {
        .method = "POST", .key = key, .query = "uploads=", .headers = headers};
    if (!page)
        return no_memory(error);
    int status = ask(context, &request, "InitiateMultipartUpload", page, NULL, error);
    if (status == 0 && page->upload[0] == '\0')
        status = error_set(error, -EBADMSG, "POST %s/%s: the upload that was begun has no name",
                           object_client_where(context), key);
    if (status == 0) {
        strcpy(ret_upload->name, page->upload);
        ret_upload->checksums = strcmp(page->algorithm, "CRC32C") == 0;
    }
    return status;
}

static int s3_put_part(void *context, const char *key, const struct object_upload *upload,
                       unsigned number, const void *data, size_t size_bytes, uint32_t crc32c,
                       char ret_tag[OBJECT_TAG_SIZE], struct error *error)
{
    char line[LINE_SIZE];
    const char *headers[] = {upload->checksums ? line : NULL, NULL};
    struct bytes query = {0};
    struct object_answer answer = {0};
    checksum_header(crc32c, line);
    int status = bytes_append_format(&query, "partNumber=%u", number);
    if (status == 0)
        status = add_parameter(&query, "uploadId", upload->name);
    if (status == 0)
        status = end_text(&query);
    const struct object_request request = {.method = "PUT",
                                           .key = key,
                                           .query = (const char *)query.data,
                                           .headers = headers,
                                           .body = data,
                                           .body_bytes = size_bytes};
    status = status != 0 ? no_memory(error) : object_request(context, &request, &answer, error);
    if (status == 0 && answer.tag[0] == '\0')
        status = error_set(error, -EBADMSG, "PUT %s/%s: the store gave part %u no ETag",
                           object_client_where(context), key, number);
    if (status == 0)
        strcpy(ret_tag, answer.tag);
    object_answer_done(&answer);
    bytes_done(&query);
    return status;
}

static int append_escaped(struct bytes *to, const char *text)
{
    int status = 0;
    for (; status == 0 && *text != '\0'; text++) {
        const char *escape = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        status = escape ? bytes_append(to, escape, strlen(escape)) : bytes_append(to, text, 1);
    }
    return status;
}

static int append_part(struct bytes *body, const struct object_item *part, bool checksums)
{
    char crc[OBJECT_BASE64_CRC_SIZE];
    int status = bytes_append_format(body, "<Part><PartNumber>%u</PartNumber><ETag>", part->number);
    if (status == 0)
        status = append_escaped(body, part->tag);
    object_base64_text(part->crc32c, crc);
    if (status == 0 && checksums)
        return bytes_append_format(body, "</ETag><ChecksumCRC32C>%s</ChecksumCRC32C></Part>", crc);
    return status == 0 ? bytes_append_format(body, "</ETag></Part>") : status;
}

static int s3_finish(void *context, const char *key, const struct object_upload *upload,
                     const struct object_list *parts, struct error *error)
{
    struct bytes body = {0}, query = {0};
    AUTO_FREE struct object_page *page = calloc(1, sizeof(*page));
    int status = !page ? -ENOMEM : add_parameter(&query, "uploadId", upload->name);
    if (status == 0)
        status = end_text(&query);
    if (status == 0)
        status = bytes_append_format(&body, "<CompleteMultipartUpload xmlns=\"%s\">",
                                     "http://s3.amazonaws.com/doc/2006-03-01/");
    for (size_t i = 0; status == 0 && i < parts->count; i++)
        status = append_part(&body, &parts->items[i], upload->checksums);
    if (status == 0)
        status = bytes_append_format(&body, "</CompleteMultipartUpload>");
    const struct object_request request = {.method = "POST",
                                           .key = key,
                                           .query = (const char *)query.data,
                                           .body = body.data,
                                           .body_bytes = body.size_bytes};
    status = status != 0 ? no_memory(error)
                         : ask(context, &request, "CompleteMultipartUpload", page, NULL, error);
    bytes_done(&body);
    bytes_done(&query);
    return status;
}

static int s3_give_up(void *context, const char *key, const char *upload, struct error *error)
{
    struct bytes query = {0};
    struct object_answer answer = {0};
    int status = add_parameter(&query, "uploadId", upload);
    if (status == 0)
        status = end_text(&query);
    const struct object_request request = {
        .method = "DELETE", .key = key, .query = (const char *)query.data};
    status = status != 0 ? no_memory(error) : object_request(context, &request, &answer, error);
    object_answer_done(&answer);
    bytes_done(&query);
    return forgive_absence(status, error);
}

/* ---- open and close ---- */

int object_s3_open(const struct object_settings *settings, const char *bucket,
                   const atomic_bool *stop, struct object_store *ret_store, struct error *error)
{
    struct object_client *client;
    if (!object_bucket_valid(bucket))
        return error_set(error, -EINVAL,
                         "\"%.64s\" is not a bucket's name (3 to 63 of a-z, 0-9, '.', '-')",
                         bucket);
    int status = object_client_new(settings, bucket, stop, &client, error);
    if (status != 0)
        return status;
    *ret_store = (struct object_store){
        .context = client,
        .where = object_client_where(client),
        .list = s3_list,
        .list_uploads = s3_list_uploads,
        .list_parts = s3_list_parts,
        .get = s3_get,
        .put = s3_put,
        .copy = s3_copy,
        .begin = s3_begin,
        .put_part = s3_put_part,
        .finish = s3_finish,
        .give_up = s3_give_up,
        .remove = s3_remove,
    };
    return 0;
}

void object_s3_close(struct object_store *store)
{
    object_client_free(store->context);
    *store = (struct object_store){0};
}
