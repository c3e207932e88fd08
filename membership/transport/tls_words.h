/*
 * What is wrong with TLS, in words that say what to do about it: libcurl and OpenSSL say what they
 * found. Their own words stand behind in parentheses.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

#include "base/compiler.h"

#define TLS_WORDS_SIZE 384

/** tls_words_connect() - a connection could not be made
 * @words: libcurl's, perhaps empty
 *
 * Return: @ret_text; or @words when @code is not about TLS. */
const char *tls_words_connect(CURLcode code, const char *words, char ret_text[TLS_WORDS_SIZE]);
/** tls_words_refused() - the peer ended a connection that TLS had agreed on
 *
 * Return: @ret_text; NULL when it is not TLS that says why. */
const char *tls_words_refused(const char *words, char ret_text[TLS_WORDS_SIZE]);
