/*
 * The token that a cluster's firnds and their clients share: it gives access to the HTTP pages
 * (Authorization: Bearer, RFC 6750).
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"

#define HTTP_TOKEN_MIN    16 /* characters: fewer can be guessed */
#define HTTP_TOKEN_SIZE   513
#define HTTP_TOKEN_SCHEME "Bearer "

/**
 * http_token_read() - read the only line of the file at @path
 *
 * The caller clears @ret_token (explicit_bzero()) when it is done with it.
 *
 * Return: 0; -EINVAL: the file holds no token; another errno: it cannot be read. @error names the
 * file and gives the remedy; @ret_token is "" then.
 */
int http_token_read(const char *path, char ret_token[HTTP_TOKEN_SIZE],
                    struct error *error) CHECK_RESULT;

/**
 * http_token_accepts() - return whether @header, the value of Authorization, carries @token
 * @header: NULL: the request has none
 *
 * The comparison takes constant time, however much of the token is right.
 */
bool http_token_accepts(const char *token, const char *header);
