/*
 * manifest.json as bytes. The object's last member is the XXH3-128 of every byte before it, so the
 * manifest of a copied folder can be checked without etcd. The SHA-256 in the commit record proves
 * that it is the committed manifest.
 */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/manifest.h"

#define PATH_SIZE 1280

/* `,"checksum":"<32 digits>"}` and a line feed end the file. */
#define CLOSING_FORMAT ",\"checksum\":\"%s\"}\n"
#define CLOSING_BYTES  (13 + 32 + 3)

static void closing_make(const char *text, size_t size_bytes, char ret_closing[CLOSING_BYTES + 1])
{
    char hash[HASH128_TEXT_SIZE];
    hash128_text(hash_xxh3(text, size_bytes), hash);
    int length = snprintf(ret_closing, CLOSING_BYTES + 1, CLOSING_FORMAT, hash);
    assert(length == CLOSING_BYTES);
}

int manifest_text(const struct manifest *manifest, struct bytes *ret_text)
{
    AUTO_JSON json_t *tree = manifest_encode(manifest);
    if (!tree)
        return -ENOMEM;
    AUTO_FREE char *text = json_text(tree);
    if (!text)
        return -ENOMEM;
    size_t size = strlen(text) - 1; /* without the closing brace */
    if (size + CLOSING_BYTES > MANIFEST_BYTES_MAX)
        return -EFBIG;
    char closing[CLOSING_BYTES + 1];
    closing_make(text, size, closing);
    struct bytes bytes = {0};
    if (bytes_append(&bytes, text, size) != 0 ||
        bytes_append(&bytes, closing, CLOSING_BYTES) != 0) {
        bytes_done(&bytes);
        return -ENOMEM;
    }
    *ret_text = bytes;
    return 0;
}

int manifest_parse(const char *text, size_t size_bytes, const char *where,
                   struct manifest *ret_manifest, struct error *error)
{
    char closing[CLOSING_BYTES + 1];
    if (size_bytes <= CLOSING_BYTES)
        return error_set(error, -EBADMSG, "%s: truncated: only %zu bytes", where, size_bytes);
    closing_make(text, size_bytes - CLOSING_BYTES, closing);
    if (memcmp(text + size_bytes - CLOSING_BYTES, closing, CLOSING_BYTES) != 0)
        return error_set(error, -EBADMSG,
                         "%s: damaged or not firn's: it does not end with the checksum of its text",
                         where);
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse(text, size_bytes, where, &tree, error);
    if (status != 0)
        return status == -ENOMEM ? status : -EBADMSG;
    return manifest_decode(tree, where, ret_manifest, error);
}

void manifest_sha256(const void *text, size_t size_bytes, char ret_sha256[65])
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(digest, text, size_bytes);
    sodium_bin2hex(ret_sha256, 65, digest, sizeof(digest));
}

int manifest_check(const struct bytes *content, const char *where, const char *sha256,
                   struct manifest *ret_manifest, struct error *error)
{
    char found[65];
    manifest_sha256(content->data, content->size_bytes, found);
    if (sha256 && strcmp(sha256, found) != 0)
        return error_set(error, -EBADMSG,
                         "%s: not the manifest that was committed (SHA-256 %.16s..., not %.16s...)",
                         where, found, sha256);
    struct manifest manifest;
    int status =
        manifest_parse((const char *)content->data, content->size_bytes, where, &manifest, error);
    if (status != 0)
        return status;
    if (!manifest_is_sealed(&manifest)) {
        manifest_done(&manifest);
        return error_set(error, -EBADMSG, "%s: only a part, not sealed", where);
    }
    *ret_manifest = manifest;
    return 0;
}

int manifest_load(const char *folder, const char *sha256, struct manifest *ret_manifest,
                  struct error *error)
{
    char path[PATH_SIZE];
    if (snprintf(path, sizeof(path), "%s/%s", folder, MANIFEST_NAME) >= (int)sizeof(path))
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    struct bytes content = {0};
    int status = file_read(path, MANIFEST_BYTES_MAX, &content, error);
    if (status == 0)
        status = manifest_check(&content, path, sha256, ret_manifest, error);
    bytes_done(&content);
    return status;
}
