#include "fuzz/memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory_file memory_file_make(const uint8_t *data, size_t size)
{
    struct memory_file file = {.descriptor = memfd_create("fuzz", MFD_CLOEXEC)};
    if (file.descriptor < 0)
        abort();
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file.descriptor, data + done, size - done);
        if (n <= 0)
            abort();
        done += (size_t)n;
    }
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.descriptor);
    return file;
}

void memory_file_close(struct memory_file *file)
{
    close(file->descriptor);
}
