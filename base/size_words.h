/* Numbers of bytes in messages, in powers of 1024: "1.5 GiB". */
#pragma once

#include <stdint.h>

#define SIZE_WORDS_SIZE 16

/** size_words() - write "512 B", "1.5 KiB", "80.0 GiB"; returns @text */
const char *size_words(uint64_t size_bytes, char text[SIZE_WORDS_SIZE]);
