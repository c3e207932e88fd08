/* The text of a CRC32C in S3: its four bytes, the highest first, in Base64. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_BASE64_CRC_SIZE 9 /* with the zero */

void object_base64_text(uint32_t crc32c, char ret_text[OBJECT_BASE64_CRC_SIZE]);
/** object_base64_crc() - parse the text; false if it is not the Base64 of four bytes */
bool object_base64_crc(const char *text, uint32_t *ret_crc32c);
