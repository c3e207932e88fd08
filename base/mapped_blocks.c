#include "base/mapped_blocks.h"

#include <malloc.h>

void mapped_blocks_from(size_t size_bytes)
{
    mallopt(M_MMAP_THRESHOLD, (int)size_bytes); /* an explicit value also disables its growth */
}
