#include "comm/mesh/frame_seal.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define NONCE_SIZE 12 /* four zeros, and the number of the seal */

struct frame_seal {
    EVP_CIPHER_CTX *context; /* NULL: checksums */
    uint64_t count;
    uint32_t start, crc; /* of checksums: CRC of the key, and of the seal being computed */
};

int frame_seal_new(enum frame_seal_kind kind, const uint8_t key[FRAME_SEAL_KEY_SIZE],
                   struct frame_seal **ret_seal)
{
    struct frame_seal *seal = calloc(1, sizeof(*seal));
    if (!seal)
        return -ENOMEM;
    if (kind == SEAL_CHECKSUMS) {
        seal->start = hash_crc32c(0, key, FRAME_SEAL_KEY_SIZE);
        *ret_seal = seal;
        return 0;
    }
    seal->context = EVP_CIPHER_CTX_new();
    if (!seal->context) {
        frame_seal_free(seal);
        return -ENOMEM;
    }
    if (EVP_EncryptInit_ex(seal->context, EVP_aes_256_gcm(), NULL, key, NULL) != 1) {
        frame_seal_free(seal);
        return -ENOTSUP;
    }
    *ret_seal = seal;
    return 0;
}

void frame_seal_free(struct frame_seal *seal)
{
    if (!seal)
        return;
    EVP_CIPHER_CTX_free(seal->context); /* clears the key */
    free(seal);
}

int frame_seal_begin(struct frame_seal *seal)
{
    uint8_t nonce[NONCE_SIZE] = {0};
    bytes_put_u64(nonce + NONCE_SIZE - sizeof(uint64_t), seal->count++);
    if (!seal->context) {
        seal->crc = hash_crc32c(seal->start, nonce, sizeof(nonce));
        return 0;
    }
    return EVP_EncryptInit_ex(seal->context, NULL, NULL, NULL, nonce) == 1 ? 0 : -EIO;
}

int frame_seal_add(struct frame_seal *seal, const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    if (!seal->context) {
        seal->crc = hash_crc32c(seal->crc, data, size_bytes);
        return 0;
    }
    while (size_bytes > 0) {
        int part = (int)MIN(size_bytes, (size_t)INT_MAX), ignored;
        if (EVP_EncryptUpdate(seal->context, NULL, &ignored, at, part) != 1)
            return -EIO;
        at += part;
        size_bytes -= (size_t)part;
    }
    return 0;
}

int frame_seal_end(struct frame_seal *seal, uint8_t ret_tag[FRAME_SEAL_TAG_SIZE])
{
    uint8_t nothing[FRAME_SEAL_TAG_SIZE];
    int ignored;
    if (!seal->context) {
        memset(ret_tag, 0, FRAME_SEAL_TAG_SIZE);
        bytes_put_u32(ret_tag, seal->crc);
        return 0;
    }
    bool made = EVP_EncryptFinal_ex(seal->context, nothing, &ignored) == 1 &&
                EVP_CIPHER_CTX_ctrl(seal->context, EVP_CTRL_AEAD_GET_TAG, FRAME_SEAL_TAG_SIZE,
                                    ret_tag) == 1;
    return made ? 0 : -EIO;
}

int frame_seal_make(struct frame_seal *seal, const void *data, size_t size_bytes,
                    uint8_t ret_tag[FRAME_SEAL_TAG_SIZE])
{
    int status = frame_seal_begin(seal);
    if (status == 0)
        status = frame_seal_add(seal, data, size_bytes);
    return status == 0 ? frame_seal_end(seal, ret_tag) : status;
}

int frame_seal_check_end(struct frame_seal *seal, const uint8_t tag[FRAME_SEAL_TAG_SIZE])
{
    uint8_t expected[FRAME_SEAL_TAG_SIZE];
    int status = frame_seal_end(seal, expected);
    if (status < 0)
        return status;
    return CRYPTO_memcmp(expected, tag, FRAME_SEAL_TAG_SIZE) == 0 ? 0 : -EBADMSG;
}

int frame_seal_check(struct frame_seal *seal, const void *data, size_t size_bytes,
                     const uint8_t tag[FRAME_SEAL_TAG_SIZE])
{
    int status = frame_seal_begin(seal);
    if (status == 0)
        status = frame_seal_add(seal, data, size_bytes);
    return status == 0 ? frame_seal_check_end(seal, tag) : status;
}
