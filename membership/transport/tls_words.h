/*
 * Explain TLS errors and name the remedy. The original text of libcurl or OpenSSL follows in
 * parentheses.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "base/compiler.h"

#define TLS_WORDS_SIZE 384

/** tls_words_connect() - explain why a connection could not be made
 * @words: libcurl's, perhaps empty
 *
 * Return: @ret_text; or @words when @code is not about TLS. */
const char *tls_words_connect(CURLcode code, const char *words, char ret_text[TLS_WORDS_SIZE]);
/** tls_words_refused() - explain why the peer ended a connection after the TLS handshake
 *
 * Return: @ret_text; NULL when the reason is not an error of TLS. */
const char *tls_words_refused(const char *words, char ret_text[TLS_WORDS_SIZE]);
