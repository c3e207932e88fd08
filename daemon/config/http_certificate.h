/* Check the certificate that firnd presents over HTTPS, at startup. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

/**
 * http_certificate_check() - check that a node at @address can present the certificate
 * @certificate: PEM file, the node's own certificate first
 * @key: PEM file, without a passphrase
 * @address: "10.0.0.1:7580"
 *
 * Return: 0; -EINVAL: a file is unreadable or malformed, the key does not match the certificate, or
 * the certificate has expired or is not valid for the address. @error names the file and the
 * remedy.
 */
int http_certificate_check(const char *certificate, const char *key, const char *address,
                           struct error *error) CHECK_RESULT;

/** http_authorities_check() - check that @path is a PEM file of certificates. Return: 0; -EINVAL */
int http_authorities_check(const char *path, struct error *error) CHECK_RESULT;
