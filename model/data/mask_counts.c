#include "model/data/mask_counts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/data/token_row.h"

#define MAGIC 0x31746e756f636d66ull /* "fmcount1": version of format and counts */

struct header {
    uint64_t magic;
    struct hash128 key;
    uint64_t context, sample_count;
    struct hash128 check; /* digest of the counts */
};

static struct header header_of(const struct mask_counts *self, const uint32_t *counts)
{
    return (struct header){
        .magic = MAGIC,
        .key = self->key,
        .context = self->context,
        .sample_count = self->sample_count,
        .check = hash_xxh3(counts, (size_t)self->sample_count * sizeof(*counts)),
    };
}

static bool load(const struct mask_counts *self, int descriptor, uint32_t *ret_counts)
{
    size_t size_bytes = (size_t)self->sample_count * sizeof(*ret_counts);
    struct header found;
    struct stat status;

    if (fstat(descriptor, &status) < 0 || (uint64_t)status.st_size != sizeof(found) + size_bytes ||
        token_row_read_file(self->path, descriptor, 0, &found, sizeof(found), NULL) < 0 ||
        token_row_read_file(self->path, descriptor, sizeof(found), ret_counts, size_bytes, NULL) <
            0)
        return false;
    struct header right = header_of(self, ret_counts);
    return memcmp(&found, &right, sizeof(right)) == 0;
}

bool mask_counts_load(const struct mask_counts *self, uint32_t *ret_counts)
{
    int descriptor = self->path ? open(self->path, O_RDONLY | O_CLOEXEC) : -1;
    bool loaded = descriptor >= 0 && load(self, descriptor, ret_counts);

    close_descriptor(&descriptor);
    if (loaded)
        (void)utimensat(AT_FDCWD, self->path, NULL, 0); /* model/data/digest_folder.h */
    return loaded;
}

int mask_counts_keep(const struct mask_counts *self, const uint32_t *counts, struct error *error)
{
    size_t size_bytes = (size_t)self->sample_count * sizeof(*counts);
    const struct header header = header_of(self, counts);
    AUTO_FREE char *file = malloc(sizeof(header) + size_bytes);

    if (!file)
        return error_set(error, -ENOMEM, "%s: no memory to write it", self->path);
    memcpy(file, &header, sizeof(header));
    memcpy(file + sizeof(header), counts, size_bytes);
    return file_replace(self->path, file, sizeof(header) + size_bytes, 0644, error);
}
