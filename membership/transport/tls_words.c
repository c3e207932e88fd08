#include "membership/transport/tls_words.h"

#include <stdio.h>
#include <string.h>

struct meaning {
    const char *fragment; /* part of the original text; "": matches any text */
    const char *sentence;
};

static const struct meaning untrusted[] = {
    {"expired", "its certificate has expired"},
    {"not yet valid", "its certificate is not valid yet: are both clocks right?"},
    {"subject name",
     "its certificate is not for this name: ask for a name or address that it is for"},
    {"", "its certificate is of no authority that we trust: is the CA file the right one?"},
};

static const struct meaning refused[] = {
    {"alert certificate required", "it wants a client certificate, and none is configured"},
    {"alert bad certificate",
     "it refuses our client certificate, or wants one: is it of the authority that etcd trusts, and valid?"},
    {"alert unknown ca",
     "it refuses our client certificate: it is of no authority that etcd trusts"},
    {"alert certificate expired", "it refuses our client certificate, which has expired"},
    {"alert", "it rejected the TLS handshake: its log says why"},
};

static const char *say(const struct meaning *meanings, size_t count, const char *words,
                       char ret_text[TLS_WORDS_SIZE])
{
    for (size_t i = 0; i < count; i++) {
        if (!strstr(words, meanings[i].fragment))
            continue;
        snprintf(ret_text, TLS_WORDS_SIZE, "%s (%.160s)", meanings[i].sentence, words);
        return ret_text;
    }
    return NULL;
}

static const char *say_one(const char *sentence, const char *words, char ret_text[TLS_WORDS_SIZE])
{
    const struct meaning meaning = {"", sentence};
    return say(&meaning, 1, words, ret_text);
}

const char *tls_words_connect(CURLcode code, const char *words, char ret_text[TLS_WORDS_SIZE])
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return say(untrusted, ARRAY_COUNT(untrusted), words, ret_text);
    case CURLE_SSL_CERTPROBLEM:
        return say_one("our client certificate cannot be used: does the key belong to it?", words,
                       ret_text);
    case CURLE_SSL_CACERT_BADFILE:
        return say_one("the CA file holds no certificate", words, ret_text);
    case CURLE_SSL_CONNECT_ERROR:
        return say_one("it does not speak TLS with us: is it http:// instead of https://?", words,
                       ret_text);
    default:
        return words;
    }
}

const char *tls_words_refused(const char *words, char ret_text[TLS_WORDS_SIZE])
{
    return say(refused, ARRAY_COUNT(refused), words, ret_text);
}
