#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/remote/remote.h"

/* Add a text. The first one separates these hashes from those of the links, which use the same
 * key. */
static void add_text(crypto_generichash_state *state, const char *text)
{
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

void checkpoint_proof(const uint8_t key[CHECKPOINT_KEY_SIZE], const struct checkpoint_range *range,
                      char ret_proof[CHECKPOINT_PROOF_SIZE])
{
    unsigned char digest[32];
    char numbers[64];
    crypto_generichash_state state;
    static_assert(CHECKPOINT_PROOF_SIZE == 2 * sizeof(digest) + 1, "two digits a byte");
    snprintf(numbers, sizeof(numbers), "%llu+%llu", (unsigned long long)range->offset,
             (unsigned long long)range->size_bytes);
    crypto_generichash_init(&state, key, CHECKPOINT_KEY_SIZE, sizeof(digest));
    add_text(&state, "firn checkpoint range 1");
    add_text(&state, range->job);
    add_text(&state, range->folder);
    add_text(&state, range->file);
    add_text(&state, numbers);
    crypto_generichash_final(&state, digest, sizeof(digest));
    sodium_bin2hex(ret_proof, CHECKPOINT_PROOF_SIZE, digest, sizeof(digest));
}

bool checkpoint_proof_valid(const uint8_t key[CHECKPOINT_KEY_SIZE],
                            const struct checkpoint_range *range, const char *proof)
{
    char expected[CHECKPOINT_PROOF_SIZE];
    checkpoint_proof(key, range, expected);
    return strlen(proof) == CHECKPOINT_PROOF_SIZE - 1 &&
           sodium_memcmp(proof, expected, CHECKPOINT_PROOF_SIZE - 1) == 0;
}

bool checkpoint_is_sealed(const char *folder)
{
    return strcmp(folder, CHECKPOINT_REMOTE_FROZEN) == 0;
}

void checkpoint_seal(const uint8_t key[CHECKPOINT_KEY_SIZE], const char *proof, const void *data,
                     size_t size_bytes, uint8_t ret_seal[CHECKPOINT_SEAL_SIZE])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, key, CHECKPOINT_KEY_SIZE, CHECKPOINT_SEAL_SIZE);
    add_text(&state, "firn checkpoint answer 1");
    add_text(&state, proof);
    crypto_generichash_update(&state, data, size_bytes);
    crypto_generichash_final(&state, ret_seal, CHECKPOINT_SEAL_SIZE);
}
