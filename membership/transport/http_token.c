#include "membership/transport/http_token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"

/* The letters of a b64token (RFC 6750, 2.1): none of them ends or splits a header. */
static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

/* Return the length of the line in @text; 0: it is not a line of such letters. */
static size_t line_length(const char *text, size_t size_bytes)
{
    size_t length = strspn(text, letters);
    size_t end = length + strspn(text + length, "\r\n");

    return end == size_bytes ? length : 0;
}

int http_token_read(const char *path, char ret_token[HTTP_TOKEN_SIZE], struct error *error)
{
    struct bytes text CLEANUP(bytes_forget) = {0};

    ret_token[0] = '\0';
    int status = file_read(path, HTTP_TOKEN_SIZE + 1, &text, error);
    if (status)
        return status;
    size_t length = line_length((const char *)text.data, text.size_bytes);
    if (length < HTTP_TOKEN_MIN || length >= HTTP_TOKEN_SIZE)
        return error_set(error, -EINVAL,
                         "%s does not hold a token: one line of %d to %d letters, digits and "
                         "-._~+/=; make one with: openssl rand -hex 32 > %s",
                         path, HTTP_TOKEN_MIN, HTTP_TOKEN_SIZE - 1, path);
    memcpy(ret_token, text.data, length);
    ret_token[length] = '\0';
    return 0;
}

bool http_token_accepts(const char *token, const char *header)
{
    const size_t scheme = strlen(HTTP_TOKEN_SCHEME), length = strlen(token);

    if (!header || strncasecmp(header, HTTP_TOKEN_SCHEME, scheme) != 0)
        return false;
    const char *shown = header + scheme + strspn(header + scheme, " ");
    return strlen(shown) == length && CRYPTO_memcmp(shown, token, length) == 0;
}
