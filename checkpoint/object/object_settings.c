#include "checkpoint/object/object_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536

struct key {
    const char *name;
    size_t offset, size;
    bool required;
};

#define TEXT(member, needed)                                                                       \
    {                                                                                              \
#member, offsetof(struct object_settings, member),                                         \
            sizeof(((struct object_settings *)NULL)->member), needed                               \
    }

static const struct key keys[] = {
    TEXT(endpoint, true),   TEXT(region, true),     TEXT(ca_file, false),       TEXT(prefix, false),
    TEXT(access_key, true), TEXT(secret_key, true), TEXT(session_token, false),
};

static const char known[] =
    "endpoint, region, ca_file, prefix, access_key, secret_key, session_token, bytes_per_second";

/* Read the whole file, zero-terminated; the caller wipes it. */
static int read_private(const char *path, char *text, struct error *error)
{
    struct stat about;
    size_t size = 0;
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &about) != 0)
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    if (about.st_mode & S_IRWXO)
        return error_set(error, -EPERM,
                         "%s holds a secret key and everybody may read it: chmod o-rwx %s", path,
                         path);
    while (size < FILE_BYTES_MAX) {
        ssize_t got = read(descriptor, text + size, FILE_BYTES_MAX - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, -errno, "reading %s: %s", path, strerror(errno));
        if (got == 0)
            break;
        size += (size_t)got;
    }
    if (size == FILE_BYTES_MAX)
        return error_set(error, -EFBIG, "%s: more than %d bytes", path, FILE_BYTES_MAX - 1);
    text[size] = '\0';
    return strlen(text) == size ? 0 : error_set(error, -EINVAL, "%s: holds a zero byte", path);
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Accept only characters that need no encoding in a header and a URL. */
static bool is_plain(const char *value)
{
    for (; *value != '\0'; value++)
        if (*value <= ' ' || *value > '~')
            return false;
    return true;
}

static int take_rate(const char *value, uint64_t *ret_rate)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0)
        return -EINVAL;
    *ret_rate = number;
    return 0;
}

static int take(const char *name, const char *value, struct object_settings *settings,
                const char *path, unsigned line, struct error *error)
{
    if (strcmp(name, "bytes_per_second") == 0 && take_rate(value, &settings->bytes_per_second) == 0)
        return 0;
    if (strcmp(name, "bytes_per_second") == 0)
        return error_set(error, -EINVAL, "%s:%u: bytes_per_second: not a whole number", path, line);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (strcmp(name, keys[i].name) != 0)
            continue;
        if (strlen(value) >= keys[i].size || !is_plain(value))
            return error_set(error, -EINVAL,
                             "%s:%u: %s: at most %zu visible characters without spaces", path, line,
                             name, keys[i].size - 1);
        strcpy((char *)settings + keys[i].offset, value);
        return 0;
    }
    return error_set(error, -EINVAL, "%s:%u: no such key; there are %s", path, line, known);
}

static int take_line(char *text, struct object_settings *settings, const char *path, unsigned line,
                     struct error *error)
{
    text = trim(text);
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(error, -EINVAL, "%s:%u: not \"key = value\"", path, line);
    *equals = '\0';
    return take(trim(text), trim(equals + 1), settings, path, line, error);
}

static void strip_slashes(char *text)
{
    size_t lead = strspn(text, "/");
    memmove(text, text + lead, strlen(text + lead) + 1);
    for (size_t length = strlen(text); length > 0 && text[length - 1] == '/';)
        text[--length] = '\0';
}

/* Accept only scheme, host and port: a path, a query or a user would break the signature. */
static bool is_endpoint(const char *text)
{
    const char *host = strncasecmp(text, "https://", 8) == 0  ? text + 8
                       : strncasecmp(text, "http://", 7) == 0 ? text + 7
                                                              : "";
    return host[0] != '\0' && !strpbrk(host, "/?#@\\");
}

static bool is_key_text(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    return text[strspn(text, letters)] == '\0' && !strstr(text, "//") && !strstr(text, "..");
}

static int check(struct object_settings *settings, const char *path, struct error *error)
{
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (keys[i].required && ((const char *)settings)[keys[i].offset] == '\0')
            return error_set(error, -EINVAL, "%s: %s is missing", path, keys[i].name);
    strip_slashes(settings->prefix);
    for (size_t length = strlen(settings->endpoint);
         length > 8 && settings->endpoint[length - 1] == '/';)
        settings->endpoint[--length] = '\0';
    if (!is_endpoint(settings->endpoint))
        return error_set(error, -EINVAL,
                         "%s: endpoint: what stands there is not https://host[:port] or "
                         "http://host[:port]",
                         path);
    if (strchr(settings->region, ':'))
        return error_set(error, -EINVAL, "%s: region: a colon cannot be in it", path);
    if (!is_key_text(settings->prefix))
        return error_set(error, -EINVAL,
                         "%s: prefix: letters, digits, '.', '_', '-' and single slashes only",
                         path);
    return 0;
}

int object_settings_load(const char *path, struct object_settings *ret_settings,
                         struct error *error)
{
    struct object_settings settings = {0};
    AUTO_FREE char *text = malloc(FILE_BYTES_MAX + 1);
    if (!text)
        return error_set(error, -ENOMEM, "no memory for %s", path);
    int status = read_private(path, text, error);
    char *at = text;
    for (unsigned line = 1; status == 0 && at; line++) {
        char *next = strchr(at, '\n');
        if (next != NULL)
            *next++ = '\0';
        status = take_line(at, &settings, path, line, error);
        at = next;
    }
    if (status == 0)
        status = check(&settings, path, error);
    if (status == 0)
        *ret_settings = settings;
    object_settings_forget(&settings);
    explicit_bzero(text, FILE_BYTES_MAX + 1);
    return status;
}

void object_settings_forget(struct object_settings *settings)
{
    explicit_bzero(settings->access_key, sizeof(settings->access_key));
    explicit_bzero(settings->secret_key, sizeof(settings->secret_key));
    explicit_bzero(settings->session_token, sizeof(settings->session_token));
}
