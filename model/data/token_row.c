#include "model/data/token_row.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/checked.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are read as they lie");

#define LLMC_HEADER_BYTES 1024 /* 256 int32 */

/* Headers of llm.c's formats. */
static const struct llmc_kind {
    uint32_t magic, version;
    size_t token_bytes;
} llmc_kinds[] = {{20240520, 1, sizeof(uint16_t)}, {20240801, 7, sizeof(uint32_t)}};

/* A file that is being added to a row. */
struct source {
    const char *path;
    int descriptor;
    size_t size_bytes, header_bytes, token_bytes;
};

int token_row_read_file(const char *path, int descriptor, uint64_t offset, void *to,
                        size_t size_bytes, struct error *error)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t n = pread(descriptor, (char *)to + done, size_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(error, -errno, "data: %s: reading at byte %llu: %s", path,
                             (unsigned long long)(offset + done), strerror(errno));
        if (n == 0)
            return error_set(error, -EIO, "data: %s: became shorter while it was read", path);
        done += (size_t)n;
    }
    return 0;
}

static int read_all(const struct source *source, size_t offset, void *to, size_t size_bytes,
                    struct error *error)
{
    return token_row_read_file(source->path, source->descriptor, offset, to, size_bytes, error);
}

static const struct llmc_kind *find_llmc_kind(uint32_t magic)
{
    for (size_t i = 0; i < ARRAY_COUNT(llmc_kinds); i++)
        if (llmc_kinds[i].magic == magic)
            return &llmc_kinds[i];
    return NULL;
}

static int check_llmc_header(struct source *source, struct error *error)
{
    uint8_t header[LLMC_HEADER_BYTES];

    if (source->size_bytes < sizeof(header))
        return error_set(error, -EINVAL, "data: %s: %zu bytes, shorter than llm.c's header of %zu",
                         source->path, source->size_bytes, sizeof(header));
    int status = read_all(source, 0, header, sizeof(header), error);
    if (status < 0)
        return status;

    uint32_t magic = bytes_get_u32(header), version = bytes_get_u32(header + 4);
    uint64_t count = bytes_get_u32(header + 8);
    const struct llmc_kind *kind = find_llmc_kind(magic);
    if (!kind)
        return error_set(error, -EINVAL, "data: %s: not llm.c's format: magic %u, not %u or %u",
                         source->path, magic, llmc_kinds[0].magic, llmc_kinds[1].magic);
    if (version != kind->version)
        return error_set(error, -EINVAL, "data: %s: llm.c's format in version %u, not %u",
                         source->path, version, kind->version);
    if (count * kind->token_bytes != source->size_bytes - sizeof(header))
        return error_set(error, -EINVAL,
                         "data: %s: the header says %llu tokens, the file holds %zu bytes of them",
                         source->path, (unsigned long long)count,
                         source->size_bytes - sizeof(header));
    source->header_bytes = sizeof(header);
    source->token_bytes = kind->token_bytes;
    return 0;
}

/* Return the bytes per token of a format without a header. */
static size_t raw_token_bytes(enum dataset_format format)
{
    if (format == DATASET_BYTES)
        return 1;
    return format == DATASET_UINT16 ? sizeof(uint16_t) : sizeof(uint32_t);
}

/* Refuse a file with a header, which would be read as tokens. */
static int refuse_header(const struct source *source, struct error *error)
{
    uint8_t begin[8] = {0};

    if (source->size_bytes < LLMC_HEADER_BYTES)
        return 0;
    int status = read_all(source, 0, begin, sizeof(begin), error);
    if (status < 0)
        return status;
    const struct llmc_kind *kind = find_llmc_kind(bytes_get_u32(begin));
    if (kind && kind->version == bytes_get_u32(begin + 4))
        return error_set(error, -EINVAL,
                         "data: %s: it begins with llm.c's header: data.format is llmc",
                         source->path);
    if (memcmp(begin, "\x93NUMPY", 6) == 0)
        return error_set(error, -EINVAL,
                         "data: %s: it begins with NumPy's header: write the tokens without one "
                         "(array.tofile())",
                         source->path);
    return 0;
}

static int check_format(struct source *source, enum dataset_format format, struct error *error)
{
    if (format == DATASET_LLMC)
        return check_llmc_header(source, error);
    source->token_bytes = raw_token_bytes(format);
    int status = format == DATASET_BYTES ? 0 : refuse_header(source, error);
    if (status < 0)
        return status;
    if (source->size_bytes % source->token_bytes != 0)
        return error_set(error, -EINVAL,
                         "data: %s: %zu bytes are no whole number of uint%zu (data.format says how "
                         "files are read)",
                         source->path, source->size_bytes, 8 * source->token_bytes);
    return 0;
}

/* Check that the tokens of all files have one size: the first file's. */
static int take_token_bytes(struct token_row *row, const struct source *source, struct error *error)
{
    assert(source->token_bytes > 0);
    if (row->token_bytes == 0)
        row->token_bytes = source->token_bytes;
    if (row->token_bytes == source->token_bytes)
        return 0;
    return error_set(error, -EINVAL,
                     "data: %s: its tokens have %zu bytes, and those of the files before it %zu",
                     source->path, source->token_bytes, row->token_bytes);
}

/* Open a file; the descriptor is open only on success. */
static int open_source(const struct listed_file *file, enum dataset_format format,
                       struct source *ret_source, struct error *error)
{
    struct source source = {.path = file->path, .size_bytes = (size_t)file->size_bytes};
    struct stat found;

    source.descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (source.descriptor < 0 || fstat(source.descriptor, &found) < 0) {
        int status = error_set(error, -errno, "data: %s: %s", file->path, strerror(errno));
        close_descriptor(&source.descriptor);
        return status;
    }
    int status = 0;
    if (!S_ISREG(found.st_mode) || (uint64_t)found.st_size != file->size_bytes)
        status = error_set(error, -EIO, "data: %s: changed while it was read", file->path);
    if (status == 0)
        status = check_format(&source, format, error);
    if (status < 0) {
        close_descriptor(&source.descriptor);
        return status;
    }
    *ret_source = source;
    return 0;
}

static uint32_t token_at(const void *tokens, size_t token_bytes, size_t index)
{
    if (token_bytes == 1)
        return ((const uint8_t *)tokens)[index];
    return token_bytes == 2 ? ((const uint16_t *)tokens)[index] : ((const uint32_t *)tokens)[index];
}

/* Return the largest token. Plain loops over one type each, which the compiler can vectorize. */
static uint32_t largest_token(const void *tokens, size_t token_bytes, size_t count)
{
    const uint8_t *bytes = tokens;
    const uint16_t *words = tokens;
    const uint32_t *doubles = tokens;
    uint8_t largest_byte = 0;
    uint16_t largest_word = 0;
    uint32_t largest_double = 0;

    if (token_bytes == 1) {
        for (size_t i = 0; i < count; i++)
            largest_byte = bytes[i] > largest_byte ? bytes[i] : largest_byte;
        return largest_byte;
    }
    if (token_bytes == 2) {
        for (size_t i = 0; i < count; i++)
            largest_word = words[i] > largest_word ? words[i] : largest_word;
        return largest_word;
    }
    for (size_t i = 0; i < count; i++)
        largest_double = doubles[i] > largest_double ? doubles[i] : largest_double;
    return largest_double;
}

int token_row_check(const char *path, const void *tokens, size_t token_bytes, uint64_t first,
                    size_t count, unsigned vocab, struct error *error)
{
    if (count == 0 || vocab >= 1ull << (8 * token_bytes) ||
        largest_token(tokens, token_bytes, count) < vocab)
        return 0;
    size_t position = 0;
    /* The likely cause is files of another width or format. */
    bool narrow =
        token_bytes == 4 && largest_token(tokens, 2, MIN(2 * count, (size_t)4096)) < vocab;
    while (token_at(tokens, token_bytes, position) < vocab)
        position++;
    return error_set(
        error, -ERANGE,
        "data: %s: token %u at position %llu is outside the vocabulary (model.vocab %u)%s", path,
        token_at(tokens, token_bytes, position), (unsigned long long)(first + position), vocab,
        narrow ? "; read as uint16 its tokens would fit: is data.format uint16?"
               : "; are model.vocab and data.format those of the tokenizer and the file?");
}

static void add_extent(struct token_row *row, struct token_extent extent, size_t token_count)
{
    extent.first = row->count;
    row->extents[row->extent_count++] = extent;
    row->count += token_count;
}

static void count_file(struct token_row *row, size_t token_count)
{
    row->file_counts[row->file_count++] = token_count;
}

/* Copy all files into one block of memory: one extent. */
static int copy_files(const struct token_row_options *options, size_t total_bytes,
                      struct token_row *row, struct error *error)
{
    const struct file_list *files = options->files;
    char *memory = malloc(MAX(total_bytes, (size_t)1));
    size_t used_bytes = 0;
    int status = 0;

    if (!memory)
        return error_set(error, -ENOMEM, "data: no memory for %zu bytes", total_bytes);
    for (size_t i = 0; status == 0 && i < files->count; i++) {
        struct source source = {0};
        status = open_source(&files->files[i], options->format, &source, error);
        if (status < 0)
            break;
        size_t size_bytes = source.size_bytes - source.header_bytes;
        status = take_token_bytes(row, &source, error);
        if (status == 0)
            status = read_all(&source, source.header_bytes, memory + used_bytes, size_bytes, error);
        close_descriptor(&source.descriptor);
        if (status == 0)
            status = token_row_check(source.path, memory + used_bytes, row->token_bytes, 0,
                                     size_bytes / row->token_bytes, options->vocab, error);
        if (status == 0)
            count_file(row, size_bytes / row->token_bytes);
        used_bytes += size_bytes;
    }
    if (status < 0 || used_bytes == 0) {
        free(memory);
        return status;
    }
    add_extent(row, (struct token_extent){.tokens = memory, .memory = memory},
               used_bytes / row->token_bytes);
    return 0;
}

/* Load the tokens of one file, mapped or copied. */
static int load_source(const struct source *source, bool map, struct token_extent *ret_extent,
                       struct error *error)
{
    size_t size_bytes = source->size_bytes - source->header_bytes;

    if (map) {
        void *memory = mmap(NULL, source->size_bytes, PROT_READ, MAP_SHARED, source->descriptor, 0);
        if (memory == MAP_FAILED)
            return error_set(error, -errno, "data: mapping %s: %s", source->path, strerror(errno));
        *ret_extent = (struct token_extent){.tokens = (char *)memory + source->header_bytes,
                                            .memory = memory,
                                            .map_bytes = source->size_bytes};
        return 0;
    }
    void *memory = malloc(size_bytes);
    if (!memory)
        return error_set(error, -ENOMEM, "data: no memory for %zu bytes", size_bytes);
    int status = read_all(source, source->header_bytes, memory, size_bytes, error);
    if (status < 0) {
        free(memory);
        return status;
    }
    *ret_extent = (struct token_extent){.tokens = memory, .memory = memory};
    return 0;
}

static int map_file(const struct token_row_options *options, const struct listed_file *file,
                    struct token_row *row, struct error *error)
{
    struct source source = {0};
    struct token_extent extent = {0};
    int status = open_source(file, options->format, &source, error);
    if (status < 0)
        return status;
    status = take_token_bytes(row, &source, error);
    if (status < 0) {
        close_descriptor(&source.descriptor);
        return status;
    }

    size_t token_count = (source.size_bytes - source.header_bytes) / row->token_bytes;
    count_file(row, token_count);
    if (token_count > 0)
        status = load_source(&source, source.size_bytes >= options->map_min_bytes, &extent, error);
    close_descriptor(&source.descriptor);
    if (status < 0 || token_count == 0)
        return status;
    assert(extent.tokens);
    add_extent(row, extent, token_count); /* the row owns it from here on, also after a failure */
    row->unchecked = options->check_later;
    if (row->unchecked)
        return 0;
    return token_row_check(file->path, extent.tokens, row->token_bytes, 0, token_count,
                           options->vocab, error);
}

static int load_files(const struct token_row_options *options, struct token_row *row,
                      struct error *error)
{
    const struct file_list *files = options->files;
    size_t total_bytes = 0;
    int status = 0;

    for (size_t i = 0; i < files->count; i++)
        if (checked_add(total_bytes, files->files[i].size_bytes, &total_bytes))
            return error_set(error, -EFBIG, "data: more bytes than can be counted");
    row->extents = calloc(MAX(files->count, (size_t)1), sizeof(*row->extents));
    row->file_counts = calloc(MAX(files->count, (size_t)1), sizeof(*row->file_counts));
    if (!row->extents || !row->file_counts)
        return error_set(error, -ENOMEM, "data: no memory for %zu files", files->count);

    if (total_bytes <= options->memory_max_bytes)
        return copy_files(options, total_bytes, row, error);
    for (size_t i = 0; status == 0 && i < files->count; i++)
        status = map_file(options, &files->files[i], row, error);
    return status;
}

int token_row_open(const struct token_row_options *options, struct token_row *ret_row,
                   struct error *error)
{
    struct token_row row = {0};
    int status = load_files(options, &row, error);
    if (status < 0) {
        token_row_done(&row);
        return status;
    }
    *ret_row = row;
    return 0;
}

void token_row_done(struct token_row *row)
{
    for (size_t i = 0; i < row->extent_count; i++) {
        const struct token_extent *extent = &row->extents[i];
        if (extent->map_bytes > 0)
            munmap(extent->memory, extent->map_bytes);
        else
            free(extent->memory);
    }
    free(row->extents);
    free(row->file_counts);
    *row = (struct token_row){0};
}

static uint64_t extent_end(const struct token_row *row, size_t index)
{
    return index + 1 < row->extent_count ? row->extents[index + 1].first : row->count;
}

void token_row_held_bytes(const struct token_row *row, uint64_t *copied, uint64_t *mapped)
{
    uint64_t bytes = row->count * row->token_bytes;

    for (size_t i = 0; i < row->extent_count; i++)
        if (row->extents[i].map_bytes > 0) {
            *mapped += row->extents[i].map_bytes;
            bytes -= (extent_end(row, i) - row->extents[i].first) * row->token_bytes;
        }
    *copied += bytes;
}

/* Return the extent that has @position. */
static size_t find_extent(const struct token_row *row, uint64_t position)
{
    size_t low = 0, high = row->extent_count; /* the answer is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (row->extents[middle].first <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

const void *token_row_span(const struct token_row *row, uint64_t first, uint64_t *ret_count)
{
    assert(first < row->count);
    size_t index = find_extent(row, first);
    const struct token_extent *extent = &row->extents[index];

    *ret_count = extent_end(row, index) - first;
    return (const char *)extent->tokens + (size_t)(first - extent->first) * row->token_bytes;
}

void token_row_read(const struct token_row *row, uint64_t first, size_t count, int32_t *ret_tokens)
{
    assert(first <= row->count && count <= row->count - first);
    size_t index = count == 0 ? 0 : find_extent(row, first);

    for (size_t done = 0; done < count; index++) {
        const struct token_extent *extent = &row->extents[index];
        size_t from = (size_t)(first + done - extent->first);
        size_t here = (size_t)MIN((uint64_t)(count - done), extent_end(row, index) - first - done);
        for (size_t i = 0; i < here; i++)
            ret_tokens[done + i] = (int32_t)token_at(extent->tokens, row->token_bytes, from + i);
        done += here;
    }
}

void token_row_hash(const struct token_row *row, struct hash_stream *stream)
{
    for (size_t i = 0; i < row->extent_count; i++) {
        uint64_t token_count = extent_end(row, i) - row->extents[i].first;
        hash_stream_add(stream, row->extents[i].tokens, (size_t)token_count * row->token_bytes);
    }
}
