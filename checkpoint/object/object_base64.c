#include "checkpoint/object/object_base64.h"

#include <sodium.h>
#include <string.h>

void object_base64_text(uint32_t crc32c, char ret_text[OBJECT_BASE64_CRC_SIZE])
{
    const unsigned char bytes[4] = {(unsigned char)(crc32c >> 24), (unsigned char)(crc32c >> 16),
                                    (unsigned char)(crc32c >> 8), (unsigned char)crc32c};
    sodium_bin2base64(ret_text, OBJECT_BASE64_CRC_SIZE, bytes, sizeof(bytes),
                      sodium_base64_VARIANT_ORIGINAL);
}

bool object_base64_crc(const char *text, uint32_t *ret_crc32c)
{
    unsigned char bytes[4];
    size_t count = 0;
    if (sodium_base642bin(bytes, sizeof(bytes), text, strlen(text), NULL, &count, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        count != sizeof(bytes))
        return false;
    *ret_crc32c = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
                  (uint32_t)bytes[3];
    return true;
}
