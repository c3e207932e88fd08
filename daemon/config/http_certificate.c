#include "daemon/config/http_certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"

/* Strip port and brackets: "10.0.0.1:7580", "[fd00::1]:7580". */
static void bare_address(const char *address, char ret_host[ADDRESS_SIZE])
{
    const char *first = address[0] == '[' ? address + 1 : address;
    const char *end = address[0] == '[' ? strchr(address, ']') : strrchr(address, ':');

    snprintf(ret_host, ADDRESS_SIZE, "%.*s", end ? (int)(end - first) : (int)strlen(first), first);
}

static FILE *open_file(const char *path, const char *name, struct error *error)
{
    FILE *file = fopen(path, "re");

    if (!file)
        error_set(error, -EINVAL, "%s: %s: %s", name, path, strerror(errno));
    return file;
}

static X509 *read_certificate(const char *path, const char *name, struct error *error)
{
    FILE *file = open_file(path, name, error);
    X509 *certificate = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;

    if (file && !certificate)
        error_set(error, -EINVAL, "%s: %s holds no certificate in PEM", name, path);
    if (file)
        fclose(file);
    return certificate;
}

/* Refuse to ask for a passphrase: a daemon has no terminal. */
static int no_passphrase(char *into, int size, int writing, void *context)
{
    (void)into;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static EVP_PKEY *read_key(const char *path, struct error *error)
{
    FILE *file = open_file(path, "http_key", error);
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, no_passphrase, NULL) : NULL;

    if (file && !key)
        error_set(error, -EINVAL, "http_key: %s holds no private key in PEM without a passphrase",
                  path);
    if (file)
        fclose(file);
    return key;
}

static int judge(X509 *certificate, EVP_PKEY *key, const char *path, const char *address,
                 struct error *error)
{
    char host[ADDRESS_SIZE];

    bare_address(address, host);
    if (X509_check_private_key(certificate, key) != 1)
        return error_set(error, -EINVAL,
                         "http_key: it is not the key of the first certificate in %s", path);
    if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        return error_set(error, -EINVAL, "http_certificate: %s has expired", path);
    if (X509_check_ip_asc(certificate, host, 0) != 1)
        return error_set(error, -EINVAL,
                         "http_certificate: %s is not for %s, by which other nodes ask: it wants "
                         "subjectAltName=IP:%s",
                         path, host, host);
    return 0;
}

int http_certificate_check(const char *certificate, const char *key, const char *address,
                           struct error *error)
{
    X509 *shown = read_certificate(certificate, "http_certificate", error);
    EVP_PKEY *secret = shown ? read_key(key, error) : NULL;
    int status = secret ? judge(shown, secret, certificate, address, error) : -EINVAL;

    X509_free(shown);
    EVP_PKEY_free(secret);
    ERR_clear_error();
    return status;
}

int http_authorities_check(const char *path, struct error *error)
{
    X509 *certificate = read_certificate(path, "http_authorities", error);

    X509_free(certificate);
    ERR_clear_error();
    return certificate ? 0 : -EINVAL;
}
