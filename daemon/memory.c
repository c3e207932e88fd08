#include "daemon/memory.h"

#include <malloc.h>

#define MAPPED_BYTES_MIN (128 * 1024)

void memory_map_large(void)
{
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN); /* which also ends its growing */
}
