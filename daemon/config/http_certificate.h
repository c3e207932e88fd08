/* The certificate that firnd's HTTP shows, checked before anybody meets it. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

/**
 * http_certificate_check() - whether a node at @address can show it
 * @certificate: PEM file, the node's own first
 * @key: PEM file, without a passphrase
 * @address: "10.0.0.1:7580"
 *
 * Return: 0; -EINVAL: a file cannot be read or is not what it must be, the key is not the
 * certificate's, the certificate has expired or is not for the address. @error says which, and what
 * to do.
 */
int http_certificate_check(const char *certificate, const char *key, const char *address,
                           struct error *error) CHECK_RESULT;

/** http_authorities_check() - whether @path is a PEM file of certificates. Return: 0; -EINVAL */
int http_authorities_check(const char *path, struct error *error) CHECK_RESULT;
