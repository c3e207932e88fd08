#include "base/words.h"

#define WORD_BYTES 8

void words_put(struct words_writer *writer, uint64_t word)
{
    uint8_t packed[WORD_BYTES];
    bytes_put_u64(packed, word);
    if (writer->status == 0)
        writer->status = bytes_append(writer->bytes, packed, sizeof(packed));
}

uint64_t words_take(struct words_reader *reader)
{
    if (reader->count == 0)
        reader->status = -EBADMSG;
    if (reader->status < 0)
        return 0;
    uint64_t word = bytes_get_u64(reader->at);
    reader->at += WORD_BYTES;
    reader->count--;
    return word;
}

uint64_t words_take_below(struct words_reader *reader, uint64_t limit)
{
    uint64_t word = words_take(reader);
    if (word >= limit)
        reader->status = -EBADMSG;
    return reader->status < 0 ? 0 : word;
}
